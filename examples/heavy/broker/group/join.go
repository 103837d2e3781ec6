package group

import (
	"bytes"
	"crypto/rand"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Join is a member's request to be in the next generation. Most are answered
// when that has begun.
func (c *Coordinator) Join(client Client, req *kmsg.JoinGroupRequest, reply func(kmsg.Response)) {
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	var refused *kerr.Error
	switch {
	case req.Group == "":
		refused = kerr.InvalidGroupID
	case session < c.minSession || session > maxSession:
		refused = kerr.InvalidSessionTimeout
	case req.ProtocolType == "" || len(req.Protocols) == 0 || len(req.Protocols) > maxProtocols:
		refused = kerr.InconsistentGroupProtocol
	}
	if refused != nil {
		reply(refuseJoin(req.Version, req.MemberID, refused))
		return
	}
	for i, p := range req.Protocols {
		req.Protocols[i].Metadata = bytes.Clone(p.Metadata) // not the whole request
	}
	g := c.group(req.Group)
	g.lock()
	defer g.unlock()
	m, resp := g.admitLocked(req)
	if resp == nil {
		resp = g.enterLocked(m, req)
	}
	if resp != nil {
		reply(resp)
		return
	}
	g.waitLocked(&wait{group: g, member: m, client: client, phase: joins, version: req.Version, reply: reply})
	g.wakeLocked(joins) // it may be the last one missing
}

// admitLocked finds or makes the member, or says why not.
func (g *group) admitLocked(req *kmsg.JoinGroupRequest) (*member, *kmsg.JoinGroupResponse) {
	m := g.mu.members[req.MemberID]
	switch {
	case req.MemberID != "" && m == nil:
		if req.InstanceID != nil && g.mu.static[*req.InstanceID] != "" {
			return nil, refuseJoin(req.Version, req.MemberID, kerr.FencedInstanceID)
		}
		return nil, refuseJoin(req.Version, req.MemberID, kerr.UnknownMemberID)
	case !g.consistentLocked(req.ProtocolType, req.Protocols):
		return nil, refuseJoin(req.Version, req.MemberID, kerr.InconsistentGroupProtocol)
	case m != nil:
		return m, nil
	}
	if req.InstanceID != nil {
		if former := g.mu.members[g.mu.static[*req.InstanceID]]; former != nil {
			return g.replaceLocked(former, req)
		}
	}
	m = &member{id: rand.Text(), instance: req.InstanceID}
	g.addLocked(m, req)
	return m, nil
}

func (g *group) addLocked(m *member, req *kmsg.JoinGroupRequest) {
	m.timeout = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	m.rebalance = m.timeout // before version 1 there was one timeout for both
	if req.Version >= 1 {
		m.rebalance = min(maxRebalance, time.Duration(max(0, req.RebalanceTimeoutMillis))*time.Millisecond)
	}
	g.mu.members[m.id] = m
	if m.instance != nil {
		g.mu.static[*m.instance] = m.id
	}
}

// enterLocked takes a member into the next generation; or answers at once where
// the present one can go on as it is.
func (g *group) enterLocked(m *member, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	same := slices.EqualFunc(m.protocols, req.Protocols, func(x, y kmsg.JoinGroupRequestProtocol) bool {
		return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata)
	})
	if g.mu.state == syncing && same || g.mu.state == stable && same && m.id != g.mu.leader {
		return g.joinedLocked(m, req.Version)
	}
	m.protocols, g.mu.protocolType = req.Protocols, req.ProtocolType
	if g.mu.state != joining {
		g.rebalanceLocked()
	}
	return nil
}

// joinedLocked is the answer that a member is in the present generation.
func (g *group) joinedLocked(m *member, version int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.MemberID, resp.Generation, resp.LeaderID = version, m.id, g.mu.generation, g.mu.leader
	resp.Protocol, resp.ProtocolType = kmsg.StringPtr(g.mu.protocol), kmsg.StringPtr(g.mu.protocolType)
	if m.id == g.mu.leader {
		for _, other := range g.membersLocked() {
			rm := kmsg.NewJoinGroupResponseMember()
			rm.MemberID, rm.InstanceID = other.id, other.instance
			rm.ProtocolMetadata = other.metadata(g.mu.protocol)
			resp.Members = append(resp.Members, rm)
		}
	}
	return resp
}

func refuseJoin(version int16, member string, err *kerr.Error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.MemberID, resp.Generation, resp.ErrorCode = version, member, -1, err.Code
	return resp
}

// replaceLocked gives a static member's place to a new process of the same
// instance. The old one is fenced. If the group is stable and would choose the same
// protocol, it goes on without a rebalance: that is what static membership is for.
// What the new process says of itself in the protocol may differ, as in Kafka: a
// cooperative one says which partitions it has, and in which generation.
func (g *group) replaceLocked(former *member, req *kmsg.JoinGroupRequest) (*member, *kmsg.JoinGroupResponse) {
	m := &member{id: rand.Text(), instance: former.instance, assignment: former.assignment, protocols: former.protocols}
	g.refuseLocked(former, kerr.FencedInstanceID)
	g.removeLocked(former)
	g.addLocked(m, req)
	led := g.mu.leader == former.id
	if led {
		g.mu.leader = m.id
	}
	if g.mu.state != stable {
		return m, nil
	}
	m.protocols = req.Protocols
	if g.commonProtocolLocked() != g.mu.protocol {
		m.protocols = former.protocols
		return m, nil
	}
	g.startSessionLocked(m)
	resp := g.joinedLocked(m, req.Version)
	switch {
	case led && req.Version >= 9:
		resp.SkipAssignment = true
	case led:
		// An older client that is told it leads would assign anew. Let it
		// think that another does.
		resp.LeaderID, resp.Members = former.id, nil
	}
	return nil, resp
}

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
	resp.Protocol, resp.ProtocolType = kmsg.StringPtr(g.mu.protocol), kmsg.StringPtr(g.mu.protocolType)
	resp.MemberAssignment = append([]byte{}, m.assignment...)
	return resp
}

func refuseSync(version int16, err *kerr.Error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version, resp.ErrorCode, resp.MemberAssignment = version, err.Code, []byte{}
	return resp
}
