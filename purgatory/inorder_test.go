package purgatory_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// taker waits for one item of some kinds.
type taker struct {
	operation.DelayedOperation
	from      *store
	kinds     []int
	fails     bool // TryComplete panics
	took      bool
	completed atomic.Int32
	then      func()
}

func (t *taker) TryComplete() bool {
	if t.fails {
		panic("of the user's")
	}
	t.took = t.from.take(t.kinds)
	return t.took
}

func (t *taker) OnExpiration() {}

func (t *taker) OnComplete() {
	t.completed.Add(1)
	if t.then != nil {
		t.then()
	}
}

// sideBySide reports whether there is an item and an operation that waits for it.
func sideBySide(s *store, takers []*taker) bool {
	s.Lock()
	defer s.Unlock()
	for _, t := range takers {
		if t.fails || t.Outcome() != operation.Pending {
			continue
		}
		for _, kind := range t.kinds {
			if s.items[kind] > 0 {
				return true
			}
		}
	}
	return false
}

// Whatever races, there is never an item beside an operation that waits for it once every item
// has been put and followed by a check in order. The clock is manual and there is no reaper, so
// that nothing repairs later what was lost.
func TestNoItemIsLeftOverWhateverRaces(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"tried at once":      nil,
		"first in first out": {purgatory.WithFirstInFirstOut()},
		"few shards, few workers": {
			purgatory.WithFirstInFirstOut(), purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				leftOverRound(t, seed, opts)
				if t.Failed() {
					t.Logf("seed %d", seed)
					return
				}
			}
		})
	}
}

func leftOverRound(t *testing.T, seed uint64, opts []purgatory.Option) {
	const kinds, steps = 3, 40
	p := onManualClock[int](t, append([]purgatory.Option{purgatory.WithPanicHandler(func(any, []byte) {})}, opts...)...)
	s := &store{items: make([]int, kinds)}
	var mu sync.Mutex
	var takers []*taker
	register := func(rnd *rand.Rand) {
		w := &taker{from: s, kinds: rnd.Perm(kinds)[:1+rnd.IntN(kinds)], fails: rnd.IntN(12) == 0}
		if rnd.IntN(4) == 0 {
			w.then = func() { p.CheckAndCompleteInOrder(w.kinds[0]) }
		}
		timeout := []time.Duration{hour, hour, hour, time.Millisecond, 2 * time.Millisecond, 0}[rnd.IntN(6)]
		_, err := p.TryCompleteElseWatch(w, timeout, w.kinds...)
		if !assert.NoError(t, err) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		takers = append(takers, w)
	}
	recent := func(rnd *rand.Rand) *taker {
		mu.Lock()
		defer mu.Unlock()
		if len(takers) == 0 {
			return &taker{}
		}
		return takers[len(takers)-1-rnd.IntN(min(len(takers), 6))]
	}
	var wg sync.WaitGroup
	for g := range uint64(6) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, g))
			for range steps {
				kind := rnd.IntN(kinds)
				switch rnd.IntN(12) {
				case 0, 1, 2:
					s.add(kind, 1+rnd.IntN(2))
					p.CheckAndCompleteInOrder(kind)
				case 3:
					s.add(kind, 1)
					p.SignalInOrder(kind)
				case 4, 5, 6, 7:
					register(rnd)
				case 8:
					p.AdvanceClock(time.Millisecond)
				case 9:
					p.Cancel(recent(rnd), nil)
				case 10:
					p.ForceComplete(recent(rnd))
				case 11:
					p.CheckAndComplete(kind)
				}
			}
		})
	}
	wg.Wait()
	assert.True(t, inTime(func() bool { return !sideBySide(s, takers) }), "an item and an operation that waits for it")
	require.NoError(t, p.Close())
	require.NoError(t, p.Shutdown(t.Context()))
	satisfied := 0
	for _, w := range takers {
		assert.EqualValues(t, 1, w.completed.Load())
		if w.Outcome() == operation.Satisfied {
			satisfied++
			assert.True(t, w.took)
		} else {
			assert.False(t, w.took, "an item that was taken for an operation that ended as %v", w.Outcome())
		}
	}
	left := 0
	for _, n := range s.items {
		left += n
	}
	assert.Equal(t, s.put, satisfied+left, "items put, and handed out or left")
}

// Closing races with everything. Who was refused after a yes gives the item back.
func TestNoItemIsLostWhenThePurgatoryCloses(t *testing.T) {
	for seed := range uint64(300) {
		p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
		s := &store{items: make([]int, 1)}
		var satisfied atomic.Int64
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, g))
				for range 20 {
					if rnd.IntN(2) == 0 {
						s.add(0, 1)
						p.CheckAndCompleteInOrder(0)
						continue
					}
					w := &taker{from: s, kinds: []int{0}}
					w.then = func() {
						if w.Outcome() == operation.Satisfied {
							satisfied.Add(1)
						}
					}
					if _, err := p.TryCompleteElseWatch(w, hour, 0); err != nil && w.took {
						s.back(0)
					}
				}
			})
		}
		wg.Go(func() {
			for range rand.New(rand.NewPCG(seed, 99)).IntN(100) {
				runtime.Gosched()
			}
			_ = p.Close()
		})
		wg.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
		require.Equal(t, s.put, int(satisfied.Load())+s.items[0], "seed %d", seed)
	}
}

// Items that one goroutine puts reach the operations strictly in order of arrival, each after
// two tries, however many wait.
func TestItemsReachManyWaitersInOrder(t *testing.T) {
	for signal, n := range map[bool]int{false: 10_000, true: 500} {
		p := onManualClock[int](t, purgatory.WithFirstInFirstOut(), purgatory.WithSignalWorkers(1))
		s := &store{items: make([]int, 1)}
		var order []int
		for i := range n {
			w := &taker{from: s, kinds: []int{0}}
			w.then = func() { order = append(order, i) }
			submit(t, p, w, hour, 0)
		}
		before := p.Stats().Checks
		for i := range n {
			s.add(0, 1)
			if !signal {
				require.Equal(t, 1, p.CheckAndCompleteInOrder(0))
				continue
			}
			p.SignalInOrder(0)
			require.True(t, inTime(func() bool { return p.NumDelayed() == n-1-i }))
		}
		require.NoError(t, p.Shutdown(t.Context()))
		require.Len(t, order, n)
		for i := range order {
			require.Equal(t, i, order[i])
		}
		assert.LessOrEqual(t, p.Stats().Checks-before, int64(2*n), "tries")
	}
}

// Many items at once, for more operations than a batch has, and one check.
func TestOneCheckHandsOutManyItems(t *testing.T) {
	p := onManualClock[int](t)
	s := &store{items: make([]int, 2)}
	for range 1000 {
		submit(t, p, &taker{from: s, kinds: []int{0, 1}}, hour, 0, 1)
	}
	s.add(0, 700)
	assert.Positive(t, p.CheckAndCompleteInOrder(0)) // a worker goes on behind the first batch
	require.True(t, inTime(func() bool { return p.NumDelayed() == 300 }))
	s.add(1, 1000)
	assert.Positive(t, p.CheckAndCompleteInOrder(1))
	require.True(t, inTime(func() bool { return p.NumDelayed() == 0 }))
	assert.Equal(t, 700, s.items[1])
	empty(t, p)
	// The same pools serve other verbs afterwards.
	for range 300 {
		submitted(t, p, 0)
	}
	before := p.Stats().Checks
	assert.Zero(t, p.CheckAndComplete(0))
	assert.EqualValues(t, 300, p.Stats().Checks-before, "a check that is not in order tries all")
	assert.Equal(t, 300, p.CompleteForKey(0))
	empty(t, p)
}

// A slot that each operation gives back when it has it: a chain through OnComplete.
func TestAChainOfItemsInOrderKeepsTheStackSmall(t *testing.T) {
	const n = 20_000
	p := onManualClock[int](t)
	s := &store{items: make([]int, 1)}
	var deepest, done atomic.Int64
	for i := range n {
		w := &taker{from: s, kinds: []int{0}}
		w.then = func() {
			done.Add(1)
			if i%64 == 0 {
				var pcs [8192]uintptr
				if frames := int64(runtime.Callers(0, pcs[:])); frames > deepest.Load() {
					deepest.Store(frames)
				}
			}
			s.back(0)
			p.CheckAndCompleteInOrder(0)
		}
		submit(t, p, w, hour, 0)
	}
	s.add(0, 1)
	p.CheckAndCompleteInOrder(0)
	require.True(t, inTime(func() bool { return done.Load() == n }), "%d of %d", done.Load(), n)
	assert.Less(t, deepest.Load(), int64(8000))
	empty(t, p)
}

// An operation that panics at each try, and one that ends its goroutine, keep no item from
// those behind them.
func TestAFailingOperationKeepsNoItemFromTheNext(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithPanicHandler(func(any, []byte) { runtime.Goexit() }))
	s := &store{items: make([]int, 1)}
	var leaves atomic.Bool
	inBackground(func() { _, _ = p.TryCompleteElseWatch(&taker{from: s, fails: true}, hour, 0) })()
	submit(t, p, &op{try: func() bool {
		if leaves.Load() {
			runtime.Goexit()
		}
		return false
	}}, hour, 0)
	var got []*taker
	for range 5 {
		w := &taker{from: s, kinds: []int{0}}
		submit(t, p, w, hour, 0)
		got = append(got, w)
	}
	leaves.Store(true)
	for _, w := range got {
		s.add(0, 1)
		inBackground(func() { p.CheckAndCompleteInOrder(0) })()
		require.True(t, inTime(func() bool { return w.completed.Load() == 1 }))
	}
	assert.Equal(t, 2, p.NumDelayed())
}

// A newcomer that has a key for itself is the first in line there. An item that is left for that
// key would else stay beside it; so it is tried, and may take what others wait for, too.
func TestANewcomerIsTriedWhereItIsTheFirstInLine(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
	s := &store{items: make([]int, 2)}
	first := &taker{from: s, kinds: []int{0}}
	submit(t, p, first, hour, 0)
	s.add(1, 1)
	p.CheckAndCompleteInOrder(1) // nobody waits for it
	second := &taker{from: s, kinds: []int{0, 1}}
	completed, err := p.TryCompleteElseWatch(second, hour, 0, 1)
	require.NoError(t, err)
	assert.True(t, completed, "the item of kind 1 is left for it")
	assert.Equal(t, operation.Pending, first.Outcome())
}
