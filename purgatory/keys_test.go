package purgatory_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// upTo returns the keys 0 to n-1.
func upTo(n int) []int {
	keys := make([]int, n)
	for i := range keys {
		keys[i] = i
	}
	return keys
}

func TestAnOperationUnderTheSameKeyTwiceEndsOnce(t *testing.T) {
	for name, end := range map[string]func(p *stringPurgatory, met *atomic.Bool) int{
		"check":  func(p *stringPurgatory, met *atomic.Bool) int { met.Store(true); return p.CheckAndComplete("a") },
		"cancel": func(p *stringPurgatory, _ *atomic.Bool) int { return p.CancelForKey("a", errGone) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			o := until(&met)
			submit(t, p, o, hour, "a", "a", "b", "a")
			assert.Equal(t, 1, end(p, &met))
			assert.EqualValues(t, 1, o.completed.Load())
			if name == "cancel" {
				assert.Equal(t, errGone, o.Cause())
			}
			empty(t, p)
		})
	}
}

// No check would find it: the error names it, and the operation is not begun.
func TestAKeyThatIsNotEqualToItselfIsRefused(t *testing.T) {
	p := onManualClock[float64](t, purgatory.WithMaxPending(1))
	for _, keys := range [][]float64{{math.NaN()}, {1, math.NaN()}, {1, 2, 3, 4, 5, math.NaN()}} {
		o := &op{}
		_, err := p.TryCompleteElseWatch(o, hour, keys...)
		require.ErrorIs(t, err, purgatory.ErrNoKeys)
		assert.ErrorContains(t, err, "NaN")
		require.ErrorIs(t, p.Await(t.Context(), hour, func() bool { return true }, keys...), purgatory.ErrNoKeys)
		pending(t, o)
		assert.Zero(t, o.tries.Load())
		submit(t, p, o, time.Second, 1) // it is as new
		p.AdvanceClock(time.Second)
		ended(t, o, operation.Expired)
	}
	assert.Zero(t, p.CheckAndComplete(math.NaN()))
	assert.Zero(t, p.CancelForKey(math.NaN(), errGone))
	p.Signal(math.NaN())
	empty(t, p)
}

func TestAnUnhashableKeyPanicsAndChangesNothing(t *testing.T) {
	p := open[any](t, purgatory.WithMaxPending(2))
	var met atomic.Bool
	waits, refused, bad := until(&met), &op{}, any([]int{1})
	submit[any](t, p, waits, hour, "a")
	tries := waits.tries.Load()
	for _, call := range []func(){
		func() { p.Signal("a", bad) }, func() { p.CheckAndComplete("a", bad) }, func() { p.CheckAndComplete(bad) },
		func() { p.SignalUpTo(bad, 1) }, func() { p.CheckAndCompleteUpTo(bad, 1) }, func() { p.CancelForKey(bad, nil) }, func() { p.Waiting(bad) },
		func() { _, _ = p.TryCompleteElseWatch(refused, hour, "a", bad) },
		func() { _, _ = p.TryCompleteElseWatch(refused, hour, 1, 2, 3, 4, 5, bad) },
		func() { _ = p.Await(context.Background(), hour, met.Load, "a", bad) },
	} {
		assert.Panics(t, call)
	}
	assert.Equal(t, []int{1, 1}, []int{p.NumDelayed(), p.Watched()})
	assert.Equal(t, tries, waits.tries.Load(), "a was neither checked nor signalled")
	submit[any](t, p, refused, hour, "a", 7, struct{ x int }{1}) // it is unused, and counts against no maximum
	assert.Equal(t, 1, p.CancelForKey(struct{ x int }{1}, nil))
	met.Store(true)
	p.Signal("a")
	endsSoon(t, waits, operation.Satisfied)
}

func TestKeysYieldsTheKeysThatOperationsWaitFor(t *testing.T) {
	for _, shards := range []int{1, 64} {
		p := open[int](t, purgatory.WithWatcherShards(shards))
		assert.Empty(t, slices.Collect(p.Keys()))
		var set atomic.Bool
		for i := range 3000 {
			wait(t, p, &flagged{flag: &set}, i, i%10)
		}
		assert.Equal(t, upTo(3000), slices.Sorted(p.Keys()))
		for range p.Keys() {
			break
		}
		set.Store(true)
		for key := range p.Keys() { // no lock is held in the body
			p.CheckAndComplete(key)
		}
		empty(t, p)
	}
}

func TestKeysYieldsEveryKeyThatStaysThroughout(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(1))
	var stay, set atomic.Bool
	const staying, others = 400, 20_000
	for i := range staying {
		wait(t, p, &flagged{flag: &stay}, -1-i)
	}
	for _, going := range []bool{false, true} { // the others come, or go, during the loop
		set.Store(going)
		met := map[int]bool{}
		step := 0
		for key := range p.Keys() {
			if key < 0 {
				met[key] = true
			}
			if step++; step != 150 {
				continue
			}
			for i := range others {
				if going {
					p.CheckAndComplete(i)
				} else {
					wait(t, p, &flagged{flag: &set}, i)
				}
			}
		}
		assert.Len(t, met, staying)
	}
	assert.EqualValues(t, staying, p.Stats().Keys)
}

// A wake-up by one key of several, while the call of others is under way.
func TestCallsThatShareKeysLoseNothing(t *testing.T) {
	p := open[int](t, purgatory.WithWorkers(4), purgatory.WithWatcherShards(4))
	const keys = 6
	rounds := int64(howMany(3000, 1000))
	var levels [keys]atomic.Int64
	var wg sync.WaitGroup
	for k := range keys {
		wg.Go(func() { // a waiter whose condition becomes true by key k only
			for r := int64(1); r <= rounds; r++ {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				go func() {
					levels[k].Add(1)
					p.Signal(k, (k+1)%keys, (k+2)%keys)
				}()
				err := p.Await(ctx, hour, func() bool {
					met := levels[k].Load() >= r
					if r%7 == 0 {
						runtime.Gosched()
					}
					return met
				}, k, (k+1)%keys, (k+5)%keys)
				cancel()
				if err != nil {
					t.Errorf("key %d, round %d: %v", k, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
	empty(t, p)
}

// The purgatory does not read the slice of keys once the first TryComplete has begun.
func TestKeysAreReadBeforeTheFirstTry(t *testing.T) {
	for _, n := range []int{1, purgatory.FewKeys, purgatory.FewKeys + 1, 100} {
		p := onManualClock[int](t)
		keys, at := upTo(n), make([]purgatory.KeyPosition[int], n)
		for i := range at {
			at[i] = purgatory.KeyPosition[int]{Key: i, Position: int64(i)}
		}
		byKey := &op{try: func() bool { clear(keys); return false }}
		byPosition := &op{try: func() bool { clear(at); return false }}
		submit(t, p, byKey, hour, keys...)
		_, err := p.TryCompleteElseWatchAt(byPosition, hour, at...)
		require.NoError(t, err)
		assert.Equal(t, 2*n, p.Watched())
		assert.EqualValues(t, n, p.Stats().Keys)
		last := n - 1
		byKey.try, byPosition.try = func() bool { return true }, func() bool { return true }
		assert.Equal(t, 1, p.CheckAndCompleteUpTo(last, int64(last)-1))
		assert.Equal(t, 1, p.CheckAndCompleteUpTo(last, int64(last)))
		empty(t, p)
	}
}

// Every method that takes keys or positions refuses none of them, and accepts very many.
func TestEveryMethodTakesAnyNumberOfKeysButNone(t *testing.T) {
	p := onManualClock[int](t)
	var met atomic.Bool
	positions := func(keys []int) (at []purgatory.KeyPosition[int]) {
		for _, key := range keys {
			at = append(at, purgatory.KeyPosition[int]{Key: key, Position: 1})
		}
		return at
	}
	for name, call := range map[string]func(keys []int) error{
		"TryCompleteElseWatch": func(keys []int) error {
			_, err := p.TryCompleteElseWatch(until(&met), hour, keys...)
			return err
		},
		"TryCompleteElseWatchAt": func(keys []int) error {
			_, err := p.TryCompleteElseWatchAt(until(&met), hour, positions(keys)...)
			return err
		},
		"Await":   func(keys []int) error { return p.Await(t.Context(), 0, met.Load, keys...) },
		"AwaitAt": func(keys []int) error { return p.AwaitAt(t.Context(), 0, met.Load, positions(keys)...) },
		"AwaitValue": func(keys []int) error {
			_, err := purgatory.AwaitValue(t.Context(), p, 0, func() (int, bool) { return 0, false }, keys...)
			return err
		},
		"StartWait": func(keys []int) error { _, err := p.StartWait(hour, met.Load, keys...); return err },
	} {
		t.Run(name, func(t *testing.T) {
			all := upTo(1 << 17)
			assert.ErrorIs(t, call(nil), purgatory.ErrNoKeys)
			for _, keys := range [][]int{all[:1], all} {
				if err := call(keys); err != nil {
					assert.ErrorIs(t, err, purgatory.ErrExpired)
				}
				met.Store(true)
				p.CheckAndComplete(keys[len(keys)-1])
				met.Store(false)
			}
			empty(t, p)
		})
	}
	conserved(t, p)
}
