//go:build interleave

package watchers

import (
	"fmt"
	"testing"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
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
		s.hasStale.Store(1)
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

// Two walks in order come to the turn of a line together, again and again: one at a time has it, and the last turn begins
// after everything for which another one came.
func TestTwoComeToATurnEveryInterleaving(t *testing.T) {
	for _, walks := range []int{2, 3} {
		setup := func(spawn func(string, func())) func() error {
			w := newMap(1)
			s, hash := w.Shard(w.Hash(1)), w.Hash(1)
			op := &waiter{}
			machine.Of(op).Begin(op, 1, 1)
			s.Watch(machine.Of(op), 0, &Wait[int]{1, AnyPosition, hash})
			changed, seen, having, most := 0, 0, 0, 0
			for i := range walks {
				spawn(fmt.Sprint("walk ", i), func() {
					changed++
					for again := true; again; {
						var c Cursor[int]
						_, _, ok := s.BeginTurn(&c, 1, hash, make([]*machine.Machine, 1))
						if !ok {
							return
						}
						having++
						most, seen = max(most, having), changed
						sched.Yield()
						having--
						again = c.EndTurn()
					}
				})
			}
			return func() error {
				if most != 1 || seen != walks {
					return fmt.Errorf("%d had the turn at once; the last one has seen %d of %d changes", most, seen, walks)
				}
				return nil
			}
		}
		t.Cleanup(explore.Close)
		r := explore.Exploration{Setup: setup, Preemptions: 5 - walks}.Explore()
		if r.Failure != nil {
			t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
		}
		t.Logf("%d schedules", r.Schedules)
	}
}

// Two newcomers come to the last array of watches that a shard can lend, while another operation gives one back, whose watch
// a third goroutine may still have to take out: no two share one, and each stands under all its keys.
func TestTwoTakeTheLastSpareArrayEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		w := newMap(10)
		keys := fourKeys(w)[:3]
		begin := func() *machine.Machine {
			op := &waiter{}
			machine.Of(op).Begin(op, len(keys), 1)
			return machine.Of(op)
		}
		watch := func(m *machine.Machine) {
			for i, key := range keys {
				w.Shard(w.Hash(key)).Watch(m, i, &Wait[int]{key, AnyPosition, w.Hash(key)})
			}
		}
		first, leaves := begin(), begin()
		watch(first)
		watch(leaves)
		end(w, keys[0], first) // its array is the spare one
		stand := []*machine.Machine{begin(), begin()}
		for i, m := range stand {
			spawn(fmt.Sprint("newcomer ", i), func() { watch(m) })
		}
		spawn("leaver", func() { end(w, keys[0], leaves) })
		spawn("holder", func() { w.Shard(w.Hash(keys[2])).Awaited(keys[2], w.Hash(keys[2])) })
		return func() error {
			shared := &stand[0].Extra()[0] == &stand[1].Extra()[0]
			for i, key := range keys {
				if n := w.Shard(w.Hash(key)).Waiting(key, w.Hash(key)); n != len(stand) || stand[0].Watch(i).List() == nil || stand[1].Watch(i).List() == nil {
					return fmt.Errorf("%d stand under key %d of %d; shared: %v", n, i, len(keys), shared)
				}
			}
			if n, _ := watched(w); shared || n != len(stand)*len(keys) || w.Stale() > 0 {
				return fmt.Errorf("%d watches stand, %d are left; shared: %v", n, w.Stale(), shared)
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
