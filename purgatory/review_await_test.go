package purgatory_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Many goroutines await items for one key, and use each other's waits again, while checks of
// every kind, timeouts and cancellations race. Whoever has taken an item is told so, ready runs
// only while its Await does, and no item stays beside a wait.
func TestAwaitsThatAreUsedAgainLoseNoItem(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"tried at once":      nil,
		"first in first out": {purgatory.WithFirstInFirstOut()},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(howMany(150, 50)) {
				awaitRound(t, seed, opts)
				if t.Failed() {
					t.Logf("seed %d", seed)
					return
				}
			}
		})
	}
}

func awaitRound(t *testing.T, seed uint64, opts []purgatory.Option) {
	const kinds = 3
	p := onManualClock[int](t, opts...)
	s := &store{items: make([]int, kinds)}
	var handed, blocked atomic.Int64
	var stop atomic.Bool
	await := func(kind int, timeout time.Duration) {
		var awaits atomic.Bool
		awaits.Store(true)
		took := false
		err := p.Await(t.Context(), timeout, func() bool {
			if !awaits.Load() {
				t.Error("ready runs after its Await has returned")
			}
			took = s.take([]int{kind})
			return took
		}, kind)
		awaits.Store(false)
		if took {
			handed.Add(1)
		}
		assert.Equal(t, took, err == nil, "%v", err)
	}
	var waiters, others sync.WaitGroup
	for g := range uint64(8) {
		waiters.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, g))
			for range 40 {
				await(rnd.IntN(kinds), time.Duration(1+rnd.IntN(3))*time.Millisecond)
			}
			blocked.Add(1)
			await(int(g)%kinds, hour)
		})
	}
	for g := range uint64(3) {
		others.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 100+g))
			for !stop.Load() {
				kind := rnd.IntN(kinds)
				switch rnd.IntN(8) {
				case 0, 1:
					s.add(kind, 1)
					p.CheckAndCompleteInOrder(kind)
				case 2:
					s.add(kind, 1)
					p.SignalInOrder(kind)
				case 3:
					p.CheckAndComplete(kind)
				case 4:
					if blocked.Load() < 8 {
						p.CancelForKey(kind, nil)
					}
				default:
					p.AdvanceClock(time.Millisecond)
				}
				runtime.Gosched()
			}
		})
	}
	if !assert.True(t, inTime(func() bool { return blocked.Load() == 8 })) {
		require.NoError(t, p.Close())
	}
	stop.Store(true)
	others.Wait()
	assert.True(t, inTime(func() bool {
		left := 0
		for kind := range kinds {
			s.Lock()
			beside := s.items[kind] > 0 && p.Waiting(kind) > 0
			s.Unlock()
			if beside {
				left++
			}
		}
		return left == 0
	}), "an item beside a wait for it")
	require.NoError(t, p.Close())
	waiters.Wait()
	left := 0
	for _, n := range s.items {
		left += n
	}
	assert.Equal(t, s.put, int(handed.Load())+left)
	require.NoError(t, p.Shutdown(t.Context()))
}

// Await takes its turn, too.
func TestAnAwaitDoesNotOvertake(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
	s := &store{items: make([]int, 1)}
	first := &taker{from: s, kinds: []int{0}}
	submit(t, p, first, hour, 0)
	s.add(0, 1) // its check is still to come
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var returned atomic.Bool
	wg.Go(func() {
		_ = p.Await(ctx, hour, func() bool { return s.take([]int{0}) }, 0)
		returned.Store(true)
	})
	assert.True(t, inTime(func() bool { return returned.Load() || first.Outcome() != operation.Pending }))
	assert.Equal(t, operation.Satisfied, first.Outcome(), "the newcomer's registration tries those before it")
	cancel()
	wg.Wait()
}

// A wait ends and is used again while a check in order has it among those that it will try. The next
// Await that uses it stands at the end of the line, and so the operation before it takes the item.
func TestAWaitThatIsUsedAgainDoesNotOvertake(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
			s := &store{items: make([]int, 1)}
			g := newGate()
			slow := true
			first := &op{try: func() bool {
				took := s.take([]int{0})
				if took && slow {
					slow = false
					g.pass()
				}
				return took
			}}
			submit(t, p, first, hour, 0)
			leaving, leave := context.WithCancel(t.Context())
			waits, again := make(chan struct{}), make(chan error, 1)
			go func() {
				_ = p.Await(leaving, hour, func() bool { return s.take([]int{0}) }, 0)
				close(waits)
				again <- p.Await(t.Context(), hour, func() bool { return s.take([]int{0}) }, 0)
			}()
			synctest.Wait() // its registration tries nobody any more
			second := &taker{from: s, kinds: []int{0}}
			submit(t, p, second, hour, 0)
			s.add(0, 2)
			done := inBackground(func() { p.CheckAndCompleteInOrder(0) })
			<-g.entered
			leave()
			<-waits
			synctest.Wait()
			require.Equal(t, 3, p.NumDelayed(), "it waits once more")
			close(g.leave)
			done()
			require.Equal(t, operation.Satisfied, second.Outcome(), "the newcomer has overtaken it")
			require.NoError(t, p.Close())
			require.ErrorIs(t, <-again, purgatory.ErrClosed)
		})
	}
}
