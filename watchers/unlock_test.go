package watchers

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/stats"
)

// A watch that was left because a goroutine holds the shard's lock leaves its list when that
// goroutine releases the lock.
func TestAWatchLeftInABusyShardGoesWithTheUnlock(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	m, stays := wait(t, w, a, b), wait(t, w, b)
	busy := w.Shard(w.Hash(b))
	busy.mu.Lock()
	end(w, a, m) // must not wait for the lock
	assert.Equal(t, 1, w.Stale())
	assert.EqualValues(t, 2, busy.mu.watched)
	busy.unlock()
	assert.Zero(t, w.Stale())
	n, keys := watched(w)
	assert.Equal(t, []int{1, 1}, []int{n, keys})
	assert.Zero(t, busy.stale.watches[:1][0], "the array is kept, and refers to nothing")
	assert.Zero(t, w.Purge(), "nothing is left")
	end(w, b, stays)
	n, keys = watched(w)
	assert.Equal(t, []int{0, 0}, []int{n, keys})
	checkInvariants(t, w)
}

// If the lock has been released before the watch is in the shard's list of stale ones, the
// goroutine that leaves the watch takes it out itself.
func TestAWatchLeftAfterTheUnlockGoesAtOnce(t *testing.T) {
	w := newMap(10)
	m := wait(t, w, 1)
	s := w.Shard(w.Hash(1))
	require.True(t, s.addStale(m.First(), machine.Forced))
	assert.Zero(t, w.Stale())
	n, keys := watched(w)
	assert.Equal(t, []int{0, 0}, []int{n, keys})
	checkInvariants(t, w)
}

// However many watches were left, one unlock takes out all of them, maxSteps in each hold of
// the lock.
func TestAnUnlockTakesOutManyWatchesInParts(t *testing.T) {
	const n = 3*maxSteps + 5
	w := newMap(n)
	a, b := twoKeys(w)
	busy := w.Shard(w.Hash(b))
	var all []*machine.Machine
	for range n {
		all = append(all, wait(t, w, a, b))
	}
	busy.mu.Lock()
	end(w, a, all...)
	require.Equal(t, n, w.Stale())
	assert.Equal(t, maxSteps, busy.unlinkStaleLocked())
	assert.Equal(t, n-maxSteps, w.Stale())
	busy.unlock()
	assert.Zero(t, w.Stale())
	left, keys := watched(w)
	assert.Equal(t, []int{0, 0}, []int{left, keys})
	checkInvariants(t, w)
}

// Every method that takes the lock of a shard takes out the watches that were left meanwhile.
func TestEveryMethodTakesOutWhatWasLeft(t *testing.T) {
	type fixture struct {
		*Shard[int]
		key    int // other operations wait for it in the shard
		hash   uint64
		cursor *Cursor[int]       // stands in the list of key
		turn   *Cursor[int]       // has the turn of key
		all    []*machine.Machine // wait for key
	}
	few := make([]*machine.Machine, 1)
	methods := map[string]func(f fixture){
		"Begin":           func(f fixture) { f.Begin(new(Cursor[int]), f.key, f.hash, EveryPosition, few) },
		"Begin, no key":   func(f fixture) { f.Begin(new(Cursor[int]), -1, f.hash, EveryPosition, few) },
		"BeginTurn":       func(f fixture) { f.BeginTurn(new(Cursor[int]), f.key, f.hash, few) },
		"EndTurn":         func(f fixture) { f.turn.EndTurn() },
		"Next":            func(f fixture) { f.cursor.Next(few) },
		"Stop":            func(f fixture) { f.cursor.Stop() },
		"someKeys":        func(f fixture) { f.someKeys(0, 1, nil) },
		"First":           func(f fixture) { First[int](f.all[0]) },
		"Awaited":         func(f fixture) { f.Awaited(f.key, f.hash) },
		"Leave":           func(f fixture) { f.Leave(f.all[:1], []machine.Outcome{machine.Forced}, make([]int, 1)) },
		"unlinkRest":      func(f fixture) { unlinkRest[int](f.all[:1], []machine.Outcome{machine.Forced}) },
		"Sample":          func(f fixture) { f.Sample(nil, 1, 0) },
		"Watch":           func(f fixture) { waitAt(t, f.Shard.all, f.key, 5) },
		"Watch, refused":  func(f fixture) { f.Shard.all.Close(); f.Watch(nil, 0, &Wait[int]{}) },
		"Pass":            func(f fixture) { f.Pass(machine.Satisfied) },
		"Quiet":           func(f fixture) { f.Shard.all.Quiet() },
		"Tried":           func(f fixture) { f.Tried(f.key, f.hash, 1, 1) },
		"Keys":            func(f fixture) { f.Keys(nil, nil) },
		"Totals":          func(f fixture) { f.Totals(new(Totals)) },
		"Signal":          func(f fixture) { f.Signal(f.key, f.hash, EveryPosition, false) },
		"Signal, no key":  func(f fixture) { f.Signal(-1, f.hash, EveryPosition, false) },
		"TakeSignal":      func(f fixture) { f.takeSignal() },
		"a watch is left": func(f fixture) { f.addStale(f.all[0].First(), machine.Forced) },
	}
	for name, method := range methods {
		t.Run(name, func(t *testing.T) {
			w := New(Config[int]{Kick: func() {}, Shards: 8, StaleLimit: 10, Observe: stats.Config{Keys: 64, Now: func() time.Duration { return 0 }}})
			a, b := twoKeys(w)
			s, hash := w.Shard(w.Hash(b)), w.Hash(b)
			m := wait(t, w, a, b)
			left := m.Watch(1)
			f := fixture{Shard: s, key: b, hash: hash, cursor: new(Cursor[int]), turn: new(Cursor[int])}
			for range 4 {
				f.all = append(f.all, wait(t, w, b))
			}
			_, more := s.Begin(f.cursor, b, hash, EveryPosition, few)
			require.True(t, more)
			_, _, ok := s.BeginTurn(f.turn, b, hash, few)
			require.True(t, ok)
			s.mu.Lock()
			end(w, a, m)
			s.mu.Unlock() // as if the watch had been left while the method held the lock
			require.Equal(t, 1, w.Stale())
			method(f)
			assert.Zero(t, w.Stale())
			assert.Nil(t, left.List())
		})
	}
}

// Many goroutines register and end operations on several keys, while others hold the locks.
// After that no watch of an ended operation is linked, and nobody has purged.
func TestNoWatchOfAnEndedOperationStaysLinked(t *testing.T) {
	for _, limit := range []int{0, 2, 10_000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			const keys, rounds, enough = 40, 150, 20
			w := New(Config[int]{Kick: func() {}, Shards: 4, StaleLimit: limit})
			var seen, running atomic.Int64 // seen: how often a goroutine found a watch that was left
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
						s := w.Shard(uint64(r.IntN(len(w.slots))))
						s.mu.Lock()
						for range 10 {
							runtime.Gosched()
						}
						if s.hasStale.Load() != 0 {
							seen.Add(1)
						}
						s.unlock()
					}
				})
			}
			all.Go(func() { // walks
				r := rand.New(rand.NewPCG(1, 13))
				for running.Load() > 0 {
					var c Cursor[int]
					key := r.IntN(keys)
					_, more := w.Shard(w.Hash(key)).Begin(&c, key, w.Hash(key), EveryPosition, make([]*machine.Machine, 1))
					if more && r.IntN(2) == 0 {
						restOf(&c)
					} else if more {
						c.Stop()
					}
				}
			})
			all.Wait()
			assert.Zero(t, w.Stale())
			n, left := watched(w)
			assert.Equal(t, []int{0, 0}, []int{n, left})
			checkInvariants(t, w)
		})
	}
}
