package group

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

type state uint8

const (
	empty   state = iota
	joining       // members come together; a rebalance operation waits for them
	syncing       // a generation has begun; its leader is assigning
	stable
	dead // another broker's, or forgotten
)

// group is one group. What a change under its lock sets in motion, in the
// purgatories, waits until the lock is released: callbacks take it again.
type group struct {
	name        string
	coordinator *Coordinator

	actions purgatory.ActionQueue // what unlock does

	mu struct {
		sync.Mutex
		state        state
		generation   int32
		protocolType string
		protocol     string // chosen for this generation
		leader       string
		members      map[string]*member
		static       map[string]string // a static member's instance to its present member id
		rebalance    *rebalance        // while joining
	}
}

// member is guarded by its group's lock.
type member struct {
	id        string
	instance  *string // of a static member
	pending   bool    // has been given its id and has not come back with it
	timeout   time.Duration
	rebalance time.Duration
	protocols []kmsg.JoinGroupRequestProtocol

	assignment []byte
	session    *session  // nil while it waits: the open request is its sign of life
	joining    *joinWait // the JoinGroup request that waits
	syncing    *syncWait // the SyncGroup request that waits
}

func newGroup(c *Coordinator, name string) *group {
	g := &group{name: name, coordinator: c}
	g.mu.members = make(map[string]*member)
	g.mu.static = make(map[string]string)
	return g
}

// rebalanceLocked brings the members together again. Those who wait for an
// assignment of the generation that ends now are told to join.
func (g *group) rebalanceLocked() {
	if g.mu.state == joining {
		g.wakeLocked(joins) // perhaps it was only the one that left that was missing
		return
	}
	r := &rebalance{group: g, initial: g.mu.state == empty, left: g.rebalanceTimeoutLocked()}
	for _, m := range g.mu.members {
		m.assignment = nil
	}
	g.mu.state = joining
	g.wakeLocked(syncs)
	g.gatherLocked(r)
}

// rebalanceTimeoutLocked is the longest that a member gives a rebalance.
func (g *group) rebalanceTimeoutLocked() (longest time.Duration) {
	for _, m := range g.mu.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// gatherLocked waits for members: as long as a rebalance may take; or, for the first
// of a group, for the initial delay, again and again while further ones come.
func (g *group) gatherLocked(r *rebalance) {
	timeout := max(r.left, g.coordinator.config.InitialRebalance)
	if r.initial {
		timeout = min(timeout, g.coordinator.config.InitialRebalance)
		r.left -= timeout
	}
	g.mu.rebalance = r
	g.watchRebalanceLocked(r, timeout)
}

// completeLocked ends a rebalance: whoever is there is the next generation.
// Static members may be away without losing their place.
func (g *group) completeLocked(r *rebalance) {
	if g.mu.state != joining || g.mu.rebalance != r {
		return
	}
	if r.more && r.left > 0 && r.Outcome() == operation.Expired {
		g.gatherLocked(&rebalance{group: g, initial: true, left: r.left})
		return
	}
	g.mu.rebalance = nil
	for _, m := range g.mu.members {
		if m.joining == nil && m.instance == nil && !m.pending {
			g.removeLocked(m)
		}
	}
	g.mu.generation++
	if !slices.ContainsFunc(g.membersLocked(), func(m *member) bool { return m.joining != nil }) {
		g.forgetLocked()
		return
	}
	g.mu.state = syncing
	g.mu.protocol = g.commonProtocolLocked()
	if leader := g.mu.members[g.mu.leader]; leader == nil || leader.joining == nil {
		i := slices.IndexFunc(g.membersLocked(), func(m *member) bool { return m.joining != nil })
		g.mu.leader = g.membersLocked()[i].id
	}
	for _, m := range g.mu.members {
		if m.joining != nil {
			m.joining.resp = g.joinedLocked(m, m.joining.version)
			m.joining = nil
			g.startSessionLocked(m)
		}
	}
	g.wakeLocked(joins)
}

// forgetLocked ends a group that nobody is in. Its name may begin again.
func (g *group) forgetLocked() {
	for _, m := range g.mu.members {
		g.removeLocked(m)
	}
	g.mu.state = dead
	g.wakeLocked(joins) // the rebalance, if one waits: nobody will come
	g.coordinator.drop(g)
}

// removeLocked takes a member out, and answers what it waits for; the caller
// sees to the rest of the group.
func (g *group) removeLocked(m *member) {
	delete(g.mu.members, m.id)
	if w := m.joining; w != nil {
		w.resp, m.joining = refuseJoin(w.version, m.id, kerr.UnknownMemberID), nil
		g.wakeLocked(joins)
	}
	if w := m.syncing; w != nil {
		w.resp, m.syncing = refuseSync(w.version, kerr.UnknownMemberID), nil
		g.wakeLocked(syncs)
	}
	if m.instance != nil && g.mu.static[*m.instance] == m.id {
		delete(g.mu.static, *m.instance)
	}
	g.endSessionLocked(m)
}

// departLocked takes a member out and lets the others share its part.
func (g *group) departLocked(m *member) {
	g.removeLocked(m)
	switch {
	case m.pending:
	case len(g.membersLocked()) == 0:
		g.forgetLocked()
	default:
		g.rebalanceLocked()
	}
}

// membersLocked are those that have joined at least once, in a fixed order.
func (g *group) membersLocked() []*member {
	var members []*member
	for _, id := range slices.Sorted(maps.Keys(g.mu.members)) {
		if m := g.mu.members[id]; !m.pending {
			members = append(members, m)
		}
	}
	return members
}
