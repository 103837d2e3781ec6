//go:build interleave

package watchers

import (
	"fmt"
	"testing"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/proof/explore"
)

// A watch is left between a release of the lock and the look for such watches, or while
// another goroutine takes the lock. The windows are too short for a test with real goroutines.
func TestNoWatchStaysLinkedEveryInterleaving(t *testing.T) {
	for _, c := range []struct{ leavers, holders, limit, preemptions int }{
		{1, 1, 1, 4}, {1, 2, 1, 3}, {2, 1, 2, 3}, {2, 1, 1, 3}, {1, 1, 0, 4},
	} {
		t.Run(fmt.Sprintf("%d leave, %d hold, limit %d", c.leavers, c.holders, c.limit), func(t *testing.T) {
			setup := func(spawn func(string, func())) func() error {
				w := newMap(c.limit)
				a, b := twoKeys(w)
				for i := range c.leavers {
					m := wait(t, w, a, b)
					spawn(fmt.Sprint("leaver ", i), func() { end(w, a, m) })
				}
				for i := range c.holders {
					spawn(fmt.Sprint("holder ", i), func() { w.Shard(w.Hash(b)).Awaited(b, w.Hash(b)) })
				}
				return func() error {
					n, keys := 0, 0
					for s := range w.Shards() {
						n, keys = n+int(s.mu.watched), keys+int(s.mu.keys.len)
					}
					if n+keys+w.Stale() > 0 {
						return fmt.Errorf("%d watches on %d keys are linked, %d of them left", n, keys, w.Stale())
					}
					return nil
				}
			}
			t.Cleanup(explore.Close)
			r := explore.Exploration{Setup: setup, Preemptions: c.preemptions}.Explore()
			if r.Failure != nil {
				t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
			}
			t.Logf("%d schedules", r.Schedules)
		})
	}
}

// Purge may come at any moment of the same scenario.
func TestPurgeEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		w := newMap(10)
		a, b := twoKeys(w)
		m, s := wait(t, w, a, b), w.Shard(w.Hash(b))
		left := staleWatch{m.Watch(1), machine.Forced}
		w.stale.Store(1)
		s.stale.watches = append(s.stale.watches, left) // which no unlock has seen
		s.left.Store(1)
		purged := 0
		spawn("purge", func() { purged = w.Purge() })
		spawn("holder", func() { s.Awaited(b, w.Hash(b)) })
		return func() error {
			if left.List() != nil || w.Stale() != 0 {
				return fmt.Errorf("after a purge of %d, %d watches are left", purged, w.Stale())
			}
			return nil
		}
	}
	t.Cleanup(explore.Close)
	r := explore.Exploration{Setup: setup, Preemptions: 4}.Explore()
	if r.Failure != nil {
		t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
	}
	t.Logf("%d schedules", r.Schedules)
}

// Two come to the last place of a key, while the watch that makes room for one of them is being left: one is accepted
// for each watch that has gone, and none more.
func TestTwoAtTheBoundOfAKeyEveryInterleaving(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		setup := func(spawn func(string, func())) func() error {
			w := New(Config[int]{Kick: func() {}, Shards: 8, StaleLimit: 1, KeyLimit: 1})
			a, b := twoKeys(w)
			s, at := w.Shard(w.Hash(b)), &Wait[int]{b, AnyPosition, w.Hash(b)}
			gone := false
			if leaves {
				m := wait(t, w, a, b)
				spawn("leaver", func() { end(w, a, m); gone = true })
			}
			accepted, refused := 0, false // when there was room, perhaps for the other one
			for i := range 2 {
				spawn(fmt.Sprint("newcomer ", i), func() {
					op := &waiter{}
					machine.Of(op).Begin(op, 1, 1)
					had := !leaves || gone
					if s.Watch(machine.Of(op), 0, at) == Accepted {
						accepted++
					} else if had {
						refused = true
					}
				})
			}
			return func() error {
				stand := s.Waiting(b, at.Hash)
				if accepted > 1 || stand != accepted || refused && accepted == 0 || !leaves && accepted != 1 {
					return fmt.Errorf("%d were accepted, %d stand there; one was refused when there was room: %v", accepted, stand, refused)
				}
				return nil
			}
		}
		t.Cleanup(explore.Close)
		r := explore.Exploration{Setup: setup, Preemptions: 3}.Explore()
		if r.Failure != nil {
			t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
		}
		t.Logf("%d schedules", r.Schedules)
	}
}

// Two leave a watch each in shards that are busy, and one may be left: never are there two.
func TestTwoAtTheBoundOfWhatIsLeftEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		w := newMap(1)
		keys := fourKeys(w)
		most := 0
		for i := range 2 {
			m, s := wait(t, w, keys[i], keys[2+i]), w.Shard(w.Hash(keys[2+i]))
			s.mu.Lock()
			spawn(fmt.Sprint("leaver ", i), func() { end(w, keys[i], m) })
			spawn(fmt.Sprint("holder ", i), func() {
				most = max(most, w.Stale())
				s.unlock()
			})
		}
		return func() error {
			if n, _ := watched(w); n+w.Stale() > 0 || most > 1 {
				return fmt.Errorf("%d watches stand, %d are left, %d were at once", n, w.Stale(), most)
			}
			return nil
		}
	}
	t.Cleanup(explore.Close)
	r := explore.Exploration{Setup: setup, Preemptions: 2}.Explore()
	if r.Failure != nil {
		t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
	}
	t.Logf("%d schedules", r.Schedules)
}
