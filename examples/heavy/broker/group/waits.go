package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file is where a group meets the purgatories. Their callbacks take the group's
// lock, so what a change under the lock has to ask of them goes into the group's actions,
// and is done in order when the lock is released. Nothing else of the package calls them
// under the lock.

func (g *group) lock() { g.mu.Lock() }

// unlock releases the lock and then does what was put off.
func (g *group) unlock() {
	g.mu.Unlock()
	g.actions.run()
}

// wakeLocked has those who wait in a phase look again.
func (g *group) wakeLocked(p phase) {
	g.actions.add(func() { g.coordinator.Rebalances.CheckAndComplete(WaitKey{group: g.name, phase: p}) })
}

func (g *group) watchRebalanceLocked(r *rebalance, timeout time.Duration) {
	g.actions.add(func() {
		_, _ = g.coordinator.Rebalances.TryCompleteElseWatch(r, timeout, WaitKey{group: g.name, phase: joins})
	})
}

func (w *wait) key() WaitKey { return WaitKey{group: w.group.name, phase: w.phase} }

// waitLocked has a member wait: to join, for the rebalance, which has a timeout of its
// own; for an assignment, as long as a rebalance may take. The end of that evicts the
// others that have not come this far.
func (g *group) waitLocked(w *wait) {
	g.refuseLocked(w.member, kerr.RebalanceInProgress) // from another connection, which the client has given up
	w.member.wait = w
	g.endSessionLocked(w.member)
	timeout := 2 * maxRebalance
	if w.phase == syncs {
		timeout = g.rebalanceTimeoutLocked()
	}
	g.actions.add(func() {
		_, err := g.coordinator.Rebalances.TryCompleteElseWatch(w, timeout, w.key(), WaitKey{phase: connection, conn: w.client.Conn})
		if err != nil {
			w.reply(w.refusal(kerr.NotCoordinator))
		}
	})
}

// answerLocked answers the request with which a member waits.
func (g *group) answerLocked(m *member, resp kmsg.Response) {
	m.wait.resp = resp
	g.wakeLocked(m.wait.phase)
	m.wait = nil
}

// refuseLocked does so with an error, if the member waits.
func (g *group) refuseLocked(m *member, err *kerr.Error) {
	if m.wait != nil {
		g.answerLocked(m, m.wait.refusal(err))
	}
}

func (w *wait) refusal(err *kerr.Error) kmsg.Response {
	if w.phase == syncs {
		return refuseSync(w.version, err)
	}
	return refuseJoin(w.version, w.member.id, err)
}

// startSessionLocked begins a member's session, which it has unless it is
// waiting for an answer.
func (g *group) startSessionLocked(m *member) {
	if g.mu.members[m.id] != m || m.session != nil {
		return
	}
	s, timeout := &session{group: g, member: m}, m.timeout
	m.session = s
	g.actions.add(func() {
		_, _ = g.coordinator.Heartbeats.TryCompleteElseWatch(s, timeout, MemberKey{g.name, m.id})
	})
}

func (g *group) endSessionLocked(m *member) {
	if s := m.session; s != nil {
		m.session = nil
		g.actions.add(func() { g.coordinator.Heartbeats.Cancel(s, nil) })
	}
}
