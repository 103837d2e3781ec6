package watchers

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// A goroutine that ends an operation does not wait for the lock of another shard. Whoever takes that lock next, whatever for, takes out
// the watch, and so does the purge.
func TestAWatchThatIsStaleIsTakenOut(t *testing.T) {
	for name, next := range map[string]func(s *shard[int], key int, walk *Visit[int]){
		"a check":       func(s *shard[int], key int, _ *Visit[int]) { s.all.Ask(s.all.at(key, 5), true) },
		"Ask, no key":   func(s *shard[int], _ int, _ *Visit[int]) { s.all.Ask(Wait[int]{-1, 5, s.index()}, true) },
		"Next":          func(_ *shard[int], _ int, walk *Visit[int]) { walk.Next(nil, 0, true) },
		"Resume":        func(_ *shard[int], _ int, walk *Visit[int]) { walk.Resume() },
		"Claim":         func(s *shard[int], _ int, _ *Visit[int]) { s.all.Claim(Wait[int]{-1, 5, s.index()}, nil, nil) },
		"a signal":      func(s *shard[int], key int, _ *Visit[int]) { s.all.Ask(s.all.at(key, 5), false) },
		"Take":          func(s *shard[int], _ int, _ *Visit[int]) { s.all.Take() },
		"Watch":         func(s *shard[int], key int, _ *Visit[int]) { waitAt(t, s.all, key, 5) },
		"Enter, passes": func(s *shard[int], _ int, _ *Visit[int]) { pass(s) },
		"Waiting":       func(s *shard[int], key int, _ *Visit[int]) { s.all.Waiting(s.all.at(key, 0)) },
		"LastExpiries":  func(s *shard[int], _ int, _ *Visit[int]) { s.all.LastExpiries() },
		"Each": func(s *shard[int], _ int, _ *Visit[int]) {
			for range s.all.Each(0) {
			}
		},
		"Enter": func(s *shard[int], key int, _ *Visit[int]) {
			s.all.Enter(Wait[int]{key, 0, s.index()}, newOp(), false)
		},
		"Totals":         func(s *shard[int], _ int, _ *Visit[int]) { s.all.Totals(0) },
		"Purge":          func(s *shard[int], _ int, _ *Visit[int]) { s.all.Purge() },
		"another leaver": func(s *shard[int], key int, _ *Visit[int]) { end(s.all, key, wait(t, s.all, key)) },
	} {
		w := newMap(1)
		keys := keysOf(w, 3)
		a, b := keys[0], keys[1]
		m, stays := wait(t, w, a, keys[2], b), wait(t, w, b)
		s := w.shard(w.Hash(b))
		var walk *Visit[int]
		same(t, list(m), begin(w, &walk, b, everyPosition, 1))
		w.Ask(w.at(b, 5), false)
		if name == "Take" || name == "Resume" {
			pause(&walk)
			w.Ask(w.at(b, 5), false)
		}
		left := *m.Extra()
		s.lock()
		end(w, a, m)
		require.Equal(t, 1, int(w.stale.Load()))
		checkInvariants(t, w)
		s.mu.Unlock()
		require.NotNil(t, left.List, "it may stay a while")
		assert.Nil(t, left.Next, "and keeps no other one in memory")
		next(s, b, walk)
		assert.Nil(t, left.List, name)
		assert.Zero(t, int(w.stale.Load()), name)
		end(w, b, stays)
		checkInvariants(t, w)
	}
}

// The lock may be released before the watch is stale: then its own goroutine takes it out.
func TestAWatchThatBecomesStaleTooLateIsTakenOut(t *testing.T) {
	w := newMap(1)
	m := wait(t, w, 1)
	leave[int](m.First())
	assert.Nil(t, m.First().List)
	leave[int](m.First()) // in no list: as one that has left already
	assert.Zero(t, totals(w).Keys)
	checkInvariants(t, w)
}

// If as many watches are stale as the limit allows, the leaver waits for the lock.
func TestStaleWatchesAreBounded(t *testing.T) {
	w := newMap(2)
	a, b := twoKeys(w)
	ops := list(wait(t, w, a, b), wait(t, w, a, b), wait(t, w, a, b))
	busy := w.shard(w.Hash(b))
	busy.lock()
	var ended atomic.Bool
	var leaver sync.WaitGroup
	leaver.Go(func() {
		end(w, a, ops...) // waits for the lock with the third one
		ended.Store(true)
	})
	for int(w.stale.Load()) < 2 {
		runtime.Gosched()
	}
	for range 100 {
		runtime.Gosched()
	}
	assert.False(t, ended.Load(), "it did not wait")
	busy.mu.Unlock()
	leaver.Wait()
	checkInvariants(t, w)
	assert.Zero(t, int(w.stale.Load()), "the goroutine that has waited for the lock takes out the others")
	assert.Zero(t, totals(w).Watched)
}

// A watch that is stale takes no place under its key.
func TestAStaleWatchTakesNoPlace(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 8, StaleLimit: 1, KeyLimit: 1})
	a, full := twoKeys(w)
	m, newcomer, last := wait(t, w, a, full), newOp(), newOp()
	s, at := w.shard(w.Hash(full)), &Wait[int]{full, anyPosition, w.Hash(full)}
	require.False(t, s.all.Watch(newcomer, at))
	s.lock()
	end(w, a, m)
	s.mu.Unlock()
	require.Equal(t, 1, int(w.stale.Load()))
	assert.True(t, s.all.Watch(newcomer, at))
	assert.False(t, s.all.Watch(last, at), "one place, and no second")
	checkInvariants(t, w)
}

// Many goroutines register and end operations on several keys, while others hold the locks and walk.
func TestNoWatchOfAnEndedOperationStaysLinked(t *testing.T) {
	for _, limit := range []int{0, 2, 10_000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			const keys, rounds, enough = 40, 150, 20
			w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 4, StaleLimit: limit})
			var seen, running atomic.Int64 // seen: how often a goroutine found a stale watch
			var all sync.WaitGroup
			for i := range uint64(4) { // they end operations
				running.Add(1)
				all.Go(func() {
					defer running.Add(-1)
					r := rand.New(rand.NewPCG(i, 11))
					for round := 0; round < rounds || limit > 0 && seen.Load() < enough; round++ {
						of := r.Perm(keys)[:1+r.IntN(12)]
						end(w, of[r.IntN(len(of))], wait(t, w, of...), wait(t, w, of...))
					}
				})
			}
			for i := range uint64(2) { // they hold locks
				all.Go(func() {
					r := rand.New(rand.NewPCG(i, 12))
					for running.Load() > 0 {
						s := w.shard(uint64(r.IntN(len(w.slots))))
						s.lock()
						for range 10 {
							runtime.Gosched()
						}
						if s.stale.Load() != nil {
							seen.Add(1)
						}
						s.mu.Unlock()
					}
				})
			}
			all.Go(func() { // walks
				r := rand.New(rand.NewPCG(1, 13))
				for running.Load() > 0 {
					visit(w, r.IntN(keys), everyPosition, 1)
				}
			})
			all.Wait()
			w.Purge()
			assert.Zero(t, int(w.stale.Load()))
			sum := totals(w)
			assert.Equal(t, []int{0, 0}, []int{sum.Watched, sum.Keys})
			checkInvariants(t, w)
		})
	}
}

// A shard keeps some of the watches that operations have left, for those that come later, and none that refers to an operation.
func TestTheWatchesOfFurtherKeysAreUsedAgain(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	other := w.shard(w.Hash(b))
	for name, leave := range map[string]func(m *machine.Machine){
		"the checked key's": func(m *machine.Machine) { end(w, b, m) },
		"another shard's":   func(m *machine.Machine) { end(w, a, m) },
		"a stale one":       func(m *machine.Machine) { other.lock(); end(w, a, m); other.mu.Unlock(); w.Purge() },
	} {
		for range 2 * maxSpare {
			m := wait(t, w, a, b)
			watch := *m.Extra()
			leave(m)
			require.Same(t, watch, other.mu.spare, name)
			require.Nil(t, watch.Machine, name)
		}
	}
	var all []*machine.Machine
	for range 2 * maxSpare {
		all = append(all, wait(t, w, a, b, b))
	}
	require.Nil(t, other.mu.spare)
	end(w, a, all...)
	n := 0
	for x := other.mu.spare; x != nil && x.Machine == nil; x = x.Next {
		n++
	}
	assert.Equal(t, []int{maxSpare, maxSpare}, []int{n, other.mu.nspare})
}
