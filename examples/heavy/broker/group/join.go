package group

import (
	"bytes"
	"crypto/rand"
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
	case req.ProtocolType == "" || len(req.Protocols) == 0:
		refused = kerr.InconsistentGroupProtocol
	}
	if refused != nil {
		reply(refuseJoin(req.Version, req.MemberID, refused))
		return
	}
	for i, p := range req.Protocols {
		req.Protocols[i].Metadata = bytes.Clone(p.Metadata) // not the whole request
	}
	for {
		g := c.group(req.Group, true)
		if g.join(client, req, reply) {
			return
		}
		c.drop(g) // it died between the two lines; its name begins again
	}
}

// join is false when the group is dead.
func (g *group) join(client Client, req *kmsg.JoinGroupRequest, reply func(kmsg.Response)) bool {
	g.lock()
	defer g.unlock()
	if g.mu.state == dead {
		return false
	}
	m, resp := g.admitLocked(req)
	if resp == nil {
		resp = g.enterLocked(m, req)
	}
	if resp != nil {
		reply(resp)
		if g.mu.state == empty && len(g.mu.members) == 0 {
			g.forgetLocked() // it was made for a member that was not let in
		}
		return true
	}
	g.waitLocked(&wait{group: g, member: m, client: client, phase: joins, version: req.Version, reply: reply})
	g.wakeLocked(joins) // it may be the last one missing
	return true
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
	same := protocolsEqual(m.protocols, req.Protocols)
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
	resp := newJoinResponse(version, m.id)
	resp.Generation, resp.LeaderID = g.mu.generation, g.mu.leader
	protocol, protocolType := g.mu.protocol, g.mu.protocolType
	resp.Protocol, resp.ProtocolType = &protocol, &protocolType
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

func newJoinResponse(version int16, member string) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.MemberID = version, member
	return resp
}

func refuseJoin(version int16, member string, err *kerr.Error) *kmsg.JoinGroupResponse {
	resp := newJoinResponse(version, member)
	resp.ErrorCode, resp.Generation = err.Code, -1
	if version < 7 {
		resp.Protocol = kmsg.StringPtr("") // may be null only since then
	}
	return resp
}
