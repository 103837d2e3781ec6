//go:build interleave

package watchers

import (
	"fmt"
	"testing"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// exploreAll runs a scenario under every schedule with a bounded number of preemptions.
func exploreAll(t *testing.T, preemptions int, setup func(spawn func(string, func())) func() error) {
	t.Helper()
	explore.Exploration{Setup: setup, Preemptions: preemptions}.Check(t)
}

// A watch becomes stale while another goroutine takes the lock, or releases it, or purges. The windows are too short for a
// test with real goroutines.
func TestNoWatchStaysLinkedEveryInterleaving(t *testing.T) {
	for _, c := range []struct{ leavers, holders, purges, limit, preemptions int }{
		{1, 1, 0, 1, 4}, {1, 2, 0, 1, 3}, {2, 1, 0, 2, 3}, {2, 1, 0, 1, 3}, {1, 1, 0, 0, 4}, {1, 1, 1, 1, 3}, {2, 0, 1, 2, 3},
	} {
		t.Run(fmt.Sprintf("%d leave, %d hold, %d purge, limit %d", c.leavers, c.holders, c.purges, c.limit), func(t *testing.T) {
			exploreAll(t, c.preemptions, func(spawn func(string, func())) func() error {
				w := newMap(c.limit)
				a, b := twoKeys(w)
				most := 0
				for i := range c.leavers {
					m := wait(t, w, a, b)
					spawn(fmt.Sprint("leaver ", i), func() { end(w, a, m); most = max(most, int(w.stale.Load())) })
				}
				for i := range c.holders {
					spawn(fmt.Sprint("holder ", i), func() { w.Waiting(w.at(b, 0)) })
				}
				for range c.purges {
					spawn("purge", func() { w.Purge() })
				}
				return func() error {
					w.Purge()
					if sum := totals(w); sum.Watched+sum.Keys+int(w.stale.Load()) > 0 || most > c.limit {
						return fmt.Errorf("%d watches on %d keys are linked, %d are stale, %d were", sum.Watched, sum.Keys, int(w.stale.Load()), most)
					}
					return nil
				}
			})
		})
	}
}

// Two come to the last place of a key, while the watch that makes room for one of them becomes stale: one is accepted
// for each watch that has gone, and none more.
func TestTwoAtTheBoundOfAKeyEveryInterleaving(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		exploreAll(t, 3, func(spawn func(string, func())) func() error {
			w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 8, StaleLimit: 1, KeyLimit: 1})
			a, b := twoKeys(w)
			at := w.at(b, anyPosition)
			gone := false
			if leaves {
				m := wait(t, w, a, b)
				spawn("leaver", func() { end(w, a, m); gone = true })
			}
			accepted, refused := 0, false // when there was room, perhaps for the other one
			for i := range 2 {
				spawn(fmt.Sprint("newcomer ", i), func() {
					had := !leaves || gone
					if m := newOp(); w.Watch(m, &at) {
						accepted++
					} else if had {
						refused = true
					}
				})
			}
			return func() error {
				stand := w.Waiting(at)
				if accepted > 1 || stand != accepted || refused && accepted == 0 || !leaves && accepted != 1 {
					return fmt.Errorf("%d were accepted, %d stand there; one was refused when there was room: %v", accepted, stand, refused)
				}
				return nil
			}
		})
	}
}

// Checks and signals of a key, whose walks pause after each group: whatever comes together, a pass begins after each change, one
// goroutine tries at a time, and nobody has anything left to do.
func TestChecksOfAKeyEveryInterleaving(t *testing.T) {
	type scenario struct{ checks, signals, workers, claims, preemptions int }
	for _, c := range []scenario{{2, 0, 0, 0, 4}, {3, 0, 0, 0, 2}, {1, 1, 1, 0, 3}, {2, 1, 1, 0, 2}, {0, 2, 2, 0, 2}, {1, 0, 0, 1, 3}, {2, 0, 0, 1, 2}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			exploreAll(t, c.preemptions, func(spawn func(string, func())) func() error {
				w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
				w.group = 1
				state, trying, most := 0, 0, 0
				seen := map[*machine.Machine]int{}
				for _, at := range []int64{anyPosition, 3, 5} {
					seen[waitAt(t, w, 1, at)] = 0
				}
				try := func(out []*machine.Machine) {
					trying++
					most = max(most, trying)
					for _, m := range out {
						sched.Yield()
						seen[m] = state
					}
					trying--
				}
				walk := func(v *Visit[int]) {
					for on := v != nil; on; {
						for v.N > 0 {
							try(v.Group[:v.N])
							v.Next(nil, v.N, state%2 == 0)
						}
						sched.Yield() // callbacks
						on = v.Resume()
					}
				}
				change := func() {
					sched.Yield()
					state++
				}
				for i := range c.checks {
					spawn(fmt.Sprint("check ", i), func() {
						change()
						v, _ := w.Ask(w.at(1, everyPosition), true)
						walk(v)
					})
				}
				for i := range c.signals {
					spawn(fmt.Sprint("signal ", i), func() {
						change()
						w.Ask(w.at(1, everyPosition), false)
					})
				}
				work := func() {
					for w.Signalled() {
						v, _ := w.Take()
						walk(v)
					}
				}
				for i := range c.workers {
					spawn(fmt.Sprint("worker ", i), work)
				}
				for range c.claims {
					spawn("claims", func() {
						came := map[*machine.Machine]bool{}
						w.Claim(w.at(1, 0), func(m *machine.Machine) bool { came[m] = true; return false }, make([]*machine.Machine, 1))
						if len(came) != len(seen) {
							most = 100
						}
					})
				}
				return func() error {
					work()
					for _, at := range seen {
						if at != c.checks+c.signals {
							return fmt.Errorf("of %d changes, one has seen %d", c.checks+c.signals, at)
						}
					}
					if most > 1 || inside(w) != 0 {
						return fmt.Errorf("%d tried at once, %d are inside; 100: a claim has not come to all", most, inside(w))
					}
					return nil
				}
			})
		})
	}
}
