package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/operation"
)

// rebalance waits until every member has joined. Its timeout ends the wait for
// those that have not; for the first member of a group, the wait for others.
type rebalance struct {
	operation.DelayedOperation
	group   *group
	initial bool // it gathers the first members of a group
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
		if !m.joins() {
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

// wait is a member's request that waits: a JoinGroup for the rebalance to end, a
// SyncGroup for the leader's assignment.
type wait struct {
	operation.DelayedOperation
	group   *group
	member  *member
	client  Client
	phase   phase // joins or syncs
	version int16
	resp    kmsg.Response // guarded by the group's lock
	reply   func(kmsg.Response)
}

// TryComplete says yes to an answer, to a group that has moved on, and when the client
// has gone: it may have gone before the wait began, for another goroutine may be doing
// what the group has put off.
func (w *wait) TryComplete() bool {
	w.group.mu.Lock()
	defer w.group.mu.Unlock()
	return w.resp != nil || w.phase == syncs && w.group.mu.state != syncing || !w.client.Open()
}

func (w *wait) OnComplete() {
	w.group.lock()
	defer w.group.unlock()
	if w.member.wait == w { // the wait ends, the rebalance does not: the client is gone
		w.member.wait = nil
		w.group.startSessionLocked(w.member)
	}
	if w.resp == nil {
		w.resp = w.refusal(kerr.RebalanceInProgress) // ask again
	}
	w.reply(w.resp)
}

// OnExpiration: the leader has not assigned within the time of a rebalance.
// Go on without it, and without whoever else has not come this far.
func (w *wait) OnExpiration() {
	w.group.lock()
	defer w.group.unlock()
	if w.phase != syncs || w.group.mu.state != syncing {
		return
	}
	for _, m := range w.group.membersLocked() {
		if m.wait == nil && m != w.member {
			w.group.removeLocked(m)
		}
	}
	w.group.rebalanceLocked()
}

// String is what the debug page shows.
func (w *wait) String() string { return fmt.Sprintf("%v: %s", w.key(), w.member.id) }

// session waits for a member to fall silent. Each sign of life extends it.
type session struct {
	operation.DelayedOperation
	group  *group
	member *member
}

// TryComplete waits for silence, or for a cancellation, and for nothing else.
func (s *session) TryComplete() bool { return false }
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
