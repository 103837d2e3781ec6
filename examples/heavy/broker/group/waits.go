package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// This file is where a group meets the purgatories. Their callbacks take the group's
// lock, so what a change under the lock has to ask of them goes into an ActionQueue,
// and is done in order when the lock is released. Nothing else of the package calls them
// under the lock.

func (g *group) lock() { g.mu.Lock() }

// unlock releases the lock and then does what was put off.
func (g *group) unlock() {
	g.mu.Unlock()
	g.actions.Run()
}

// wakeLocked has those who wait in a phase look again.
func (g *group) wakeLocked(p phase) {
	g.actions.Add(func() { g.coordinator.Rebalances.CheckAndComplete(waitKey{group: g.name, phase: p}) })
}

func (g *group) watchRebalanceLocked(r *rebalance, timeout time.Duration) {
	g.actions.Add(func() {
		_, _ = g.coordinator.Rebalances.TryCompleteElseWatch(r, timeout, waitKey{group: g.name, phase: joins})
	})
}

// watchJoinLocked has a member wait for the rebalance, which has a timeout of its own.
func (g *group) watchJoinLocked(w *joinWait) {
	g.actions.Add(func() {
		_, err := g.coordinator.Rebalances.TryCompleteElseWatch(w, 2*maxRebalance,
			waitKey{group: g.name, phase: joins}, waitKey{phase: connection, conn: w.client.Conn})
		if err != nil {
			w.reply(refuseJoin(w.version, w.member.id, kerr.NotCoordinator))
		}
	})
}

// watchSyncLocked has a member wait for the leader's assignment, as long as a rebalance
// may take: its end evicts the others that have not come this far.
func (g *group) watchSyncLocked(w *syncWait) {
	timeout := g.rebalanceTimeoutLocked()
	g.actions.Add(func() {
		_, err := g.coordinator.Rebalances.TryCompleteElseWatch(w, timeout,
			waitKey{group: g.name, phase: syncs}, waitKey{phase: connection, conn: w.client.Conn})
		if err != nil {
			w.reply(refuseSync(w.version, kerr.NotCoordinator))
		}
	})
}

// startSessionLocked begins a member's session, which it has unless it is
// waiting for an answer.
func (g *group) startSessionLocked(m *member) {
	if g.mu.members[m.id] != m || m.session != nil || g.mu.state == dead {
		return
	}
	s := &session{group: g, member: m}
	m.session = s
	timeout := m.timeout
	g.actions.Add(func() {
		_, _ = g.coordinator.Heartbeats.TryCompleteElseWatch(s, timeout, memberKey{g.name, m.id})
	})
}

func (g *group) endSessionLocked(m *member) {
	if m.session == nil {
		return
	}
	m.session.over.Store(true)
	m.session = nil
	g.actions.Add(func() { g.coordinator.Heartbeats.CheckAndComplete(memberKey{g.name, m.id}) })
}
