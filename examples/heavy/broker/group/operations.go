package group

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/operation"
)

// rebalance waits until every member has joined. Its timeout ends the wait for
// those that have not; for the first member of a group, the wait for others.
type rebalance struct {
	operation.DelayedOperation
	group   *group
	initial bool          // it gathers the first members of a group
	more    bool          // and further ones have come meanwhile; guarded by the group's lock
	left    time.Duration // of the longest that a rebalance may take
}

func (r *rebalance) TryComplete() bool {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	if r.group.mu.rebalance != r || r.group.mu.state != joining {
		return true // there is nothing to wait for any more
	}
	if r.initial {
		return false
	}
	for _, m := range r.group.mu.members {
		if m.joining == nil && !m.pending {
			return false
		}
	}
	return true
}

func (r *rebalance) OnComplete() {
	r.group.lock()
	defer r.group.unlock()
	r.group.completeLocked(r)
}

func (r *rebalance) OnExpiration() {}

// String is what the debug page shows.
func (r *rebalance) String() string { return "rebalance of " + r.group.name }

// joinWait is a JoinGroup request that waits for the rebalance to end.
type joinWait struct {
	operation.DelayedOperation
	group   *group
	member  *member
	client  Client
	version int16
	resp    *kmsg.JoinGroupResponse // guarded by the group's lock
	reply   func(kmsg.Response)
}

// TryComplete says yes also when the client has gone: it may have gone before the wait
// began, for another goroutine may be doing what the group has put off.
func (w *joinWait) TryComplete() bool {
	w.group.mu.Lock()
	defer w.group.mu.Unlock()
	return w.resp != nil || w.group.mu.state == dead || !w.client.Open()
}

func (w *joinWait) OnComplete() {
	w.group.lock()
	defer w.group.unlock()
	if w.member.joining == w { // the wait ends, the rebalance does not: the client is gone
		w.member.joining = nil
		w.group.startSessionLocked(w.member)
	}
	resp := w.resp
	if resp == nil {
		resp = refuseJoin(w.version, w.member.id, w.group.endedByLocked(&w.DelayedOperation))
	}
	w.reply(resp)
}

func (w *joinWait) OnExpiration() {}

// String is what the debug page shows.
func (w *joinWait) String() string { return w.member.id + " joins " + w.group.name }

// syncWait is a SyncGroup request that waits for the leader's assignment.
type syncWait struct {
	operation.DelayedOperation
	group   *group
	member  *member
	client  Client
	version int16
	resp    *kmsg.SyncGroupResponse // guarded by the group's lock
	reply   func(kmsg.Response)
}

// TryComplete says yes to an assignment, to a group that has moved on, and when the
// client has gone.
func (w *syncWait) TryComplete() bool {
	w.group.mu.Lock()
	defer w.group.mu.Unlock()
	return w.resp != nil || w.group.mu.state != syncing || !w.client.Open()
}

func (w *syncWait) OnComplete() {
	w.group.lock()
	defer w.group.unlock()
	if w.member.syncing == w {
		w.member.syncing = nil
		w.group.startSessionLocked(w.member)
	}
	resp := w.resp
	if resp == nil {
		resp = refuseSync(w.version, w.group.endedByLocked(&w.DelayedOperation))
	}
	w.reply(resp)
}

// OnExpiration: the leader has not assigned within the time of a rebalance.
// Go on without it, and without whoever else has not come this far.
func (w *syncWait) OnExpiration() {
	w.group.lock()
	defer w.group.unlock()
	if w.group.mu.state != syncing {
		return
	}
	for _, m := range w.group.membersLocked() {
		if m.syncing == nil && m != w.member {
			w.group.removeLocked(m)
		}
	}
	w.group.rebalanceLocked()
}

// String is what the debug page shows.
func (w *syncWait) String() string { return w.member.id + " syncs with " + w.group.name }

// endedByLocked is the error for a request whose wait ended without an answer.
func (g *group) endedByLocked(o *operation.DelayedOperation) *kerr.Error {
	if o.Outcome() == operation.Closed || g.mu.state == dead {
		return kerr.NotCoordinator
	}
	return kerr.RebalanceInProgress // ask again
}

// session waits for a member to fall silent. Each sign of life extends it.
type session struct {
	operation.DelayedOperation
	group  *group
	member *member
	over   atomic.Bool
}

func (s *session) TryComplete() bool { return s.over.Load() }
func (s *session) OnComplete()       {}

func (s *session) OnExpiration() {
	s.group.lock()
	defer s.group.unlock()
	if s.member.session == s {
		s.group.departLocked(s.member)
	}
}

// String is what the debug page shows.
func (s *session) String() string { return s.member.id + " of " + s.group.name }
