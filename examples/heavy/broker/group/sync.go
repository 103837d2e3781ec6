package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sync is a member's request for its assignment; the leader's brings them all.
func (c *Coordinator) Sync(client Client, req *kmsg.SyncGroupRequest, reply func(kmsg.Response)) {
	g := c.group(req.Group)
	g.lock()
	defer g.unlock()
	m, err := g.fencedLocked(req.MemberID, req.InstanceID)
	switch {
	case err != nil:
	case req.Generation != g.mu.generation:
		err = kerr.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.mu.protocolType,
		req.Protocol != nil && *req.Protocol != g.mu.protocol:
		err = kerr.InconsistentGroupProtocol
	case g.mu.state == joining:
		err = kerr.RebalanceInProgress
	}
	if err != nil {
		reply(refuseSync(req.Version, err))
		return
	}
	if g.mu.state == syncing && m.id == g.mu.leader {
		g.assignLocked(req.GroupAssignment)
	}
	if g.mu.state == stable {
		g.extendLocked(m)
		reply(g.assignedLocked(m, req.Version))
		return
	}
	g.waitLocked(&wait{group: g, member: m, client: client, phase: syncs, version: req.Version, reply: reply})
}

// assignLocked hands out the leader's assignment and answers all who wait for it.
func (g *group) assignLocked(assignments []kmsg.SyncGroupRequestGroupAssignment) {
	for _, a := range assignments {
		if m := g.mu.members[a.MemberID]; m != nil {
			m.assignment = bytes.Clone(a.MemberAssignment) // not the whole request
		}
	}
	g.mu.state = stable
	for _, m := range g.membersLocked() {
		if m.wait != nil {
			g.answerLocked(m, g.assignedLocked(m, m.wait.version))
			g.startSessionLocked(m)
		}
	}
}

func (g *group) assignedLocked(m *member, version int16) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version = version
	protocol, protocolType := g.mu.protocol, g.mu.protocolType
	resp.Protocol, resp.ProtocolType = &protocol, &protocolType
	resp.MemberAssignment = append([]byte{}, m.assignment...)
	return resp
}

func refuseSync(version int16, err *kerr.Error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version, resp.ErrorCode = version, err.Code
	resp.MemberAssignment = []byte{}
	return resp
}
