package group

import (
	"crypto/rand"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replaceLocked gives a static member's place to a new process of the same
// instance. The old one is fenced. If the group is stable and would choose the same
// protocol, it goes on without a rebalance: that is what static membership is for.
// What the new process says of itself in the protocol may differ, as in Kafka: a
// cooperative one says which partitions it has, and in which generation.
func (g *group) replaceLocked(former *member, req *kmsg.JoinGroupRequest) (*member, *kmsg.JoinGroupResponse) {
	m := &member{
		id:         rand.Text(),
		instance:   former.instance,
		assignment: former.assignment,
		protocols:  former.protocols,
	}
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
