package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/operation"
)

// Heartbeat is a member's sign of life. It is told when it has to join again.
func (c *Coordinator) Heartbeat(req *kmsg.HeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	g := c.group(req.Group)
	g.lock()
	defer g.unlock()
	if err := g.aliveLocked(req.MemberID, req.InstanceID, req.Generation, joining); err != nil {
		resp.ErrorCode = err.Code
	}
	return resp
}

// aliveLocked takes a member's sign of life. In the state not it is told that its group
// rebalances.
func (g *group) aliveLocked(id string, instance *string, generation int32, not state) *kerr.Error {
	m, err := g.fencedLocked(id, instance)
	switch {
	case err != nil:
		return err
	case generation != g.mu.generation:
		return kerr.IllegalGeneration
	case !g.extendLocked(m):
		return kerr.UnknownMemberID // a moment too late
	case g.mu.state == not:
		return kerr.RebalanceInProgress
	}
	return nil
}

// extendLocked is false when the session has ended. One that has not begun to
// wait yet cannot be extended, and need not be.
func (g *group) extendLocked(m *member) bool {
	s := m.session
	return s == nil || g.coordinator.Heartbeats.Extend(s, m.timeout) || s.Outcome() == operation.Pending
}

// Leave takes members out, without waiting for their sessions to end. Since
// version 3 a request names several, static ones by their instance alone.
func (c *Coordinator) Leave(req *kmsg.LeaveGroupRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	g := c.group(req.Group)
	if req.Version < 3 {
		if err := g.leave(req.MemberID, nil); err != nil {
			resp.ErrorCode = err.Code
		}
		return resp
	}
	for _, rm := range req.Members {
		sm := kmsg.NewLeaveGroupResponseMember()
		sm.MemberID, sm.InstanceID = rm.MemberID, rm.InstanceID
		if err := g.leave(rm.MemberID, rm.InstanceID); err != nil {
			sm.ErrorCode = err.Code
		}
		resp.Members = append(resp.Members, sm)
	}
	return resp
}

func (g *group) leave(id string, instance *string) *kerr.Error {
	g.lock()
	defer g.unlock()
	if instance != nil && id == "" {
		id = g.mu.static[*instance]
	}
	m, err := g.fencedLocked(id, instance)
	if err == nil {
		g.departLocked(m)
	}
	return err
}

// fencedLocked finds the member of a request, or says why there is none.
func (g *group) fencedLocked(id string, instance *string) (*member, *kerr.Error) {
	if instance != nil {
		switch present := g.mu.static[*instance]; {
		case present == "":
			return nil, kerr.UnknownMemberID
		case present != id:
			return nil, kerr.FencedInstanceID
		}
	}
	if m := g.mu.members[id]; m != nil {
		return m, nil
	}
	return nil, kerr.UnknownMemberID
}
