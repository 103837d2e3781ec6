//go:build interleave

package interleave

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// crowd is one run of a scenario in which several operations wait for one key until a number is reached.
type crowd struct {
	*env
	state  int
	total  int // what the verbs raise it to
	all    []*member
	newest *member // which a verb registers
	never  *member // which another verb registers: the number is not reached
	closes bool
}

// member is an operation of a crowd. It waits for the position at, and ends when the number has reached want.
type member struct {
	operation.DelayedOperation
	c          *crowd
	want       int
	at         int64
	tries      int
	trying     bool
	accepted   bool
	cancelled  bool // it waited when CancelForKey began
	completed  int
	expired    int
	completing bool
}

func (m *member) TryComplete() bool {
	if m.trying || m.completed > 0 {
		m.c.fail("TryComplete overlaps itself, or follows OnComplete")
	}
	m.tries++
	m.trying = true
	sched.Yield()
	yes := m.c.state >= m.want
	m.trying = false
	return yes
}

func (m *member) OnComplete() {
	if m.trying {
		m.c.fail("OnComplete overlaps TryComplete")
	}
	m.completed++
	sched.Yield()
}

func (m *member) OnExpiration() { m.expired++ }

func (c *crowd) register(m *member) {
	completed, err := c.p.TryCompleteElseWatchAt(m, timeout, purgatory.KeyPosition[int]{Key: c.keys[0], Position: m.at})
	if m.accepted = err == nil; !m.accepted && !errors.Is(err, purgatory.ErrClosed) {
		c.fail("register: %v", err)
	}
	if completed {
		c.ended["register"]++
	}
}

// crowdVerb is what a goroutine does to a crowd. raises says that it raises the number.
type crowdVerb struct {
	name   string
	raises bool
	do     func(*crowd)
}

// raises returns a verb that raises the number, and then tells the purgatory.
func raises(tell func(*crowd)) func(*crowd) {
	return func(c *crowd) {
		sched.Yield()
		c.state++
		tell(c)
	}
}

var crowdVerbs = []crowdVerb{
	{"check", true, raises(func(c *crowd) { c.count("check", c.p.CheckAndComplete(c.keys[0])) })},
	{"upto", true, raises(func(c *crowd) { c.count("check", c.p.CheckAndCompleteUpTo(c.keys[0], 7)) })},
	{"signal", true, raises(func(c *crowd) { c.p.Signal(c.keys[0]) })},
	{"low", false, func(c *crowd) { c.count("check", c.p.CheckAndCompleteUpTo(c.keys[0], purgatory.AnyPosition)) }},
	{"register", false, func(c *crowd) { c.register(c.newest) }},
	{"never", false, func(c *crowd) { c.register(c.never) }},
	{"cancelkey", false, func(c *crowd) {
		for _, m := range c.all {
			m.cancelled = m.cancelled || m.accepted && m.completed == 0
		}
		c.count("cancel", c.p.CancelForKey(c.keys[0], errCause))
	}},
	{"force", false, func(c *crowd) {
		if c.p.ForceComplete(c.all[len(c.all)/2]) {
			c.count("force", 1)
		}
	}},
	{"expire", false, func(c *crowd) { c.p.AdvanceClock(timeout) }},
	{"close", false, func(c *crowd) { _ = c.p.Close(); c.closes = true }},
}

// atRest checks what must hold when all goroutines have ended.
func (c *crowd) atRest() error {
	c.p.AdvanceClock(0) // purges
	ended := 0
	everybody := append(slices.Clone(c.all), c.newest, c.never)
	for i, m := range everybody {
		switch due := c.clock.Now() >= timeout && i < len(c.all); { // the others may have come later
		case !m.accepted:
			continue
		case m.completed > 0:
			ended++
		case c.state >= m.want || m.cancelled || c.closes || due:
			c.fail("operation %d of %d waits: state %d of %d, tried %d times, cancelled: %v, closed: %v, due: %v", i, len(c.all), c.state, m.want, m.tries, m.cancelled, c.closes, due)
		}
	}
	did := 0
	for _, n := range c.ended {
		did += n
	}
	if did > ended {
		c.fail("ended %d, and the verbs say %v", ended, c.ended)
	}
	_ = c.p.Close()
	for i, m := range everybody {
		o := m.Outcome()
		if m.completed != boolInt(m.accepted) || m.expired != boolInt(o == operation.Expired) || o == operation.Satisfied && c.state < m.want {
			c.fail("operation %d: accepted %v, %d OnComplete, %d OnExpiration, %v", i, m.accepted, m.completed, m.expired, o)
		}
	}
	c.empty()
	return errors.Join(c.failures...)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// exploreCrowd explores verbs on a crowd of this size, some of which wait for positions. The first and the last end with the last change,
// the others with the first one.
func exploreCrowd(t *testing.T, size, bound int, verbs ...crowdVerb) {
	var names []string
	for _, v := range verbs {
		names = append(names, v.name)
	}
	name := fmt.Sprintf("crowd of %d+%s", size, strings.Join(names, "+"))
	exploreOne(t, name, bound, func(spawn func(string, func())) func() error {
		c := &crowd{env: newEnv(1, []bool{false}, false, 0)}
		for _, v := range verbs {
			c.total += boolInt(v.raises)
		}
		for i := range size {
			m := &member{c: c, want: max(1, c.total), at: purgatory.AnyPosition}
			if i > 0 && i < size-1 {
				m.want = 1
			}
			if i >= size/2 {
				m.at = int64(i * 6 / size) // up to 5
			}
			c.all = append(c.all, m)
			c.register(m)
		}
		c.newest = &member{c: c, want: max(1, c.total), at: 4}
		c.never = &member{c: c, want: c.total + 1, at: 4}
		for i, v := range verbs {
			spawn(fmt.Sprintf("%d:%s", i, v.name), func() { v.do(c) })
		}
		return c.atRest
	})
}

// TestCrowds explores checks and signals of a key with several operations, in more than one group, beside each verb: marks on a walk that is
// under way, operations that end where its cursor stands, claims beside it, newcomers before and behind it.
func TestCrowds(t *testing.T) {
	for i, a := range crowdVerbs {
		for _, b := range crowdVerbs[i:] {
			if a.raises || b.raises {
				exploreCrowd(t, 3, min(2, *pairBound), a, b)
				exploreCrowd(t, 10, max(1, *tripleBound-1), a, b)
			}
		}
	}
	named := func(name string) crowdVerb {
		return crowdVerbs[slices.IndexFunc(crowdVerbs, func(v crowdVerb) bool { return v.name == name })]
	}
	check, signal, low := named("check"), named("signal"), named("low")
	for _, others := range [][]crowdVerb{
		{check, check}, {check, signal}, {check, low}, {signal, signal}, {check, named("register")}, {check, named("cancelkey")}, {signal, named("close")}, {low, signal},
	} {
		exploreCrowd(t, 3, max(1, *tripleBound-1), append([]crowdVerb{check}, others...)...)
	}
}

// TestPauses explores a walk that pauses, because it has ended as many as fit into a batch, beside each verb. While its callbacks run,
// another walk may begin, a worker may take the key, or the key may leave the map and come back.
func TestPauses(t *testing.T) {
	const size = 128 + 3
	for _, v := range crowdVerbs {
		exploreCrowd(t, size, 1, crowdVerbs[0], v) // each schedule is long
	}
}
