package group

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type state uint8

const (
	empty   state = iota
	joining       // members come together; a rebalance operation waits for them
	syncing       // a generation has begun; its leader is assigning
	stable
)

// group is one group. What a change under its lock sets in motion, in the
// purgatories, waits until the lock is released: callbacks take it again.
type group struct {
	name        string
	coordinator *Coordinator

	actions actions // what unlock does

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
		offsets      Offsets
	}
}

// member is guarded by its group's lock.
type member struct {
	id        string
	instance  *string // of a static member
	timeout   time.Duration
	rebalance time.Duration
	protocols []kmsg.JoinGroupRequestProtocol

	assignment []byte
	session    *session // nil while it waits: the open request is its sign of life
	wait       *wait    // the request that waits
}

// joins says whether a member waits to be in the next generation.
func (m *member) joins() bool { return m.wait != nil && m.wait.phase == joins }

func newGroup(c *Coordinator, name string) *group {
	g := &group{name: name, coordinator: c}
	g.mu.members = make(map[string]*member)
	g.mu.static, g.mu.offsets = make(map[string]string), make(Offsets)
	return g
}

// rebalanceLocked brings the members together again: for as long as a rebalance may
// take, or the first of a group for the initial delay. Those who wait for an assignment
// of the generation that ends now are told to join.
func (g *group) rebalanceLocked() {
	if g.mu.state == joining {
		g.wakeLocked(joins) // perhaps it was only the one that left that was missing
		return
	}
	r := &rebalance{group: g, initial: g.mu.state == empty}
	timeout := g.coordinator.initialRebalance
	if !r.initial {
		timeout = max(timeout, g.rebalanceTimeoutLocked())
	}
	for _, m := range g.mu.members {
		m.assignment = nil
	}
	g.mu.state, g.mu.rebalance = joining, r
	g.wakeLocked(syncs)
	g.watchRebalanceLocked(r, timeout)
}

// rebalanceTimeoutLocked is the longest that a member gives a rebalance.
func (g *group) rebalanceTimeoutLocked() (longest time.Duration) {
	for _, m := range g.mu.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// completeLocked ends a rebalance: whoever is there is the next generation.
// Static members may be away without losing their place.
func (g *group) completeLocked(r *rebalance) {
	if g.mu.state != joining || g.mu.rebalance != r {
		return
	}
	g.mu.rebalance = nil
	var here []*member
	for _, m := range g.membersLocked() {
		switch {
		case m.joins():
			here = append(here, m)
		case m.instance == nil:
			g.removeLocked(m)
		}
	}
	g.mu.generation++
	if len(here) == 0 {
		g.emptyLocked()
		return
	}
	g.mu.state = syncing
	g.mu.protocol = g.commonProtocolLocked()
	if leader := g.mu.members[g.mu.leader]; leader == nil || !leader.joins() {
		g.mu.leader = here[0].id
	}
	for _, m := range here {
		g.answerLocked(m, g.joinedLocked(m, m.wait.version))
		g.startSessionLocked(m)
	}
}

// emptyLocked begins anew.
func (g *group) emptyLocked() {
	for _, m := range g.mu.members {
		g.removeLocked(m)
	}
	g.mu.state, g.mu.rebalance = empty, nil
	g.wakeLocked(joins) // the rebalance, if one waits: nobody will come
}

// removeLocked takes a member out, and answers what it waits for; the caller
// sees to the rest of the group.
func (g *group) removeLocked(m *member) {
	delete(g.mu.members, m.id)
	g.refuseLocked(m, kerr.UnknownMemberID)
	if m.instance != nil && g.mu.static[*m.instance] == m.id {
		delete(g.mu.static, *m.instance)
	}
	g.endSessionLocked(m)
}

// departLocked takes a member out and lets the others share its part.
func (g *group) departLocked(m *member) {
	g.removeLocked(m)
	if len(g.mu.members) == 0 {
		g.emptyLocked()
	} else {
		g.rebalanceLocked()
	}
}

// membersLocked are the members in a fixed order.
func (g *group) membersLocked() []*member {
	var members []*member
	for _, id := range slices.Sorted(maps.Keys(g.mu.members)) {
		members = append(members, g.mu.members[id])
	}
	return members
}

// supportsLocked says whether all members speak a protocol.
func (g *group) supportsLocked(name string) bool {
	for _, m := range g.mu.members {
		if m.metadata(name) == nil {
			return false
		}
	}
	return true
}

// consistentLocked says whether a member with these protocols would leave the
// group one that all speak.
func (g *group) consistentLocked(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	return len(g.mu.members) == 0 || g.mu.protocolType == protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.supportsLocked(p.Name)
	})
}

// commonProtocolLocked is the one that the first member prefers, of those that all speak.
func (g *group) commonProtocolLocked() string {
	for _, p := range g.membersLocked()[0].protocols {
		if g.supportsLocked(p.Name) {
			return p.Name
		}
	}
	return ""
}

// metadata is what a member says of itself in a protocol; nil: it does not
// speak it.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return append([]byte{}, p.Metadata...)
		}
	}
	return nil
}
