package purgatory_test

import (
	"context"
	"math"
	"runtime"
	"slices"
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

func TestARetryIsSignalledUnderANaNKey(t *testing.T) {
	// During each try another goroutine checks the key, so that the holder has to try
	// again, lets go after some tries, and signals the operation's first key for a worker: a NaN,
	// which only this signal finds.
	nan := 0.0
	nan /= nan
	p := open[float64](t, purgatory.WithoutReaper())
	o := &op{}
	o.try = func() bool {
		n := o.tries.Load()
		if n > 2 && n < 100 {
			inBackground(func() { p.CheckAndComplete(2) })()
		}
		return n >= 100
	}
	submit(t, p, o, hour, nan, 2)
	p.CheckAndComplete(2)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker tries again")
	ended(t, o, operation.Satisfied)
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

func TestANaNKeyExpiresAndLeavesItsLists(t *testing.T) {
	p := onManualClock[float64](t)
	nan := math.NaN()
	var met atomic.Bool
	expiring, checked, cancelled := &op{}, until(&met), &op{}
	submit(t, p, expiring, time.Second, nan)
	submit(t, p, checked, hour, nan, 1, nan, nan, nan, nan)
	submit(t, p, cancelled, hour, nan)
	assert.Equal(t, []int{3, 8, 8}, []int{p.NumDelayed(), p.Watched(), p.NumKeys()})
	assert.Zero(t, p.CheckAndComplete(nan))
	assert.Zero(t, p.CancelForKey(nan, errGone))
	p.AdvanceClock(time.Second)
	ended(t, expiring, operation.Expired)
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete(1), "found under the key that can be found")
	assert.True(t, p.Cancel(cancelled, errGone))
	empty(t, p)
}

func TestAnUnhashableKeyPanicsAndLosesNothing(t *testing.T) {
	p := onManualClock[any](t, purgatory.WithMaxPending(1))
	o, bad := &op{}, []int{1}
	assert.Panics(t, func() { _, _ = p.TryCompleteElseWatch(o, hour, "a", bad) })
	assert.Panics(t, func() { _, _ = p.TryCompleteElseWatch(o, hour, 1, 2, 3, 4, 5, bad) })
	assert.Panics(t, func() { p.CheckAndComplete(bad) })
	assert.Panics(t, func() { p.Signal(bad) })
	assert.Panics(t, func() { p.CancelForKey(bad, nil) })
	empty(t, p)
	submit[any](t, p, o, hour, "a", 7, struct{ x int }{1}) // it is unused, and counts against no maximum
	assert.Equal(t, 1, p.CancelForKey(struct{ x int }{1}, nil))
}

func TestAnOperationMayWaitForMaxKeysKeys(t *testing.T) {
	p := onManualClock[int](t)
	keys := make([]int, operation.MaxKeys)
	for i := range keys {
		keys[i] = i
	}
	var met atomic.Bool
	o := until(&met)
	submit(t, p, o, hour, keys...)
	assert.Equal(t, operation.MaxKeys, p.Watched())
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete(operation.MaxKeys-1))
	empty(t, p)
}

// A wait without a key is a plain delayed answer, which its timeout, its context, a check of
// everything or Close ends. No check of a key finds it, not even of the zero key.
func TestAWaitNeedsNoKey(t *testing.T) {
	p := onManualClock[string](t)
	ready := false
	start := func() *purgatory.Wait[string] {
		w, err := p.StartWait(time.Second, func() bool { return ready })
		require.NoError(t, err)
		return w
	}
	w := start()
	assert.Equal(t, 1, p.NumDelayed())
	assert.Empty(t, slices.Collect(p.Keys()))
	assert.Zero(t, p.Waiting(""))
	ready = true
	assert.Zero(t, p.CheckAndComplete(""))
	assert.Zero(t, p.CancelForKey("", nil))
	ready = false
	p.AdvanceClock(time.Second - 1)
	require.ErrorIs(t, w.Err(), purgatory.ErrPending)
	p.AdvanceClock(1)
	require.ErrorIs(t, w.Err(), purgatory.ErrExpired)

	w = start()
	assert.True(t, w.Stop())
	require.ErrorIs(t, w.Err(), purgatory.ErrCancelled)

	w = start()
	require.NoError(t, p.Close())
	require.ErrorIs(t, w.Err(), purgatory.ErrClosed)
	s := p.Stats()
	assert.Equal(t, []int64{3, 0, 0, 0}, []int64{s.Accepted, s.Pending, s.Watched, s.Keys})
	_, err := p.StartWait(time.Second, func() bool { return false })
	require.ErrorIs(t, err, purgatory.ErrClosed)
}

func TestAnAwaitNeedsNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[int](t)
		never := func() bool { return false }
		began := time.Now()
		ctx := context.Background()
		require.ErrorIs(t, p.Await(ctx, time.Minute, never), purgatory.ErrExpired)
		assert.Equal(t, time.Minute, time.Since(began).Truncate(time.Second))
		require.ErrorIs(t, p.AwaitAt(ctx, time.Minute, never), purgatory.ErrExpired)
		_, err := purgatory.AwaitValue(ctx, p, time.Minute, func() (int, bool) { return 0, time.Since(began) >= 3*time.Minute })
		require.ErrorIs(t, err, purgatory.ErrExpired, "who waits without a key is not tried at the timeout")
		gone, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, p.Await(gone, time.Minute, never), context.DeadlineExceeded)
	})
}

// Without a key and without a timeout nothing would end a wait but Close.
func TestAWaitWithoutKeyOrTimeoutIsRefused(t *testing.T) {
	p := onManualClock[string](t)
	for _, timeout := range []time.Duration{purgatory.NoTimeout, 0, -1} {
		require.ErrorIs(t, p.Await(t.Context(), timeout, func() bool { return true }), purgatory.ErrNoKeys, "%v", timeout)
		_, err := p.StartWait(timeout, func() bool { return true })
		require.ErrorIs(t, err, purgatory.ErrNoKeys)
	}
	o := &op{}
	_, err := p.TryCompleteElseWatch(o, time.Minute)
	require.ErrorIs(t, err, purgatory.ErrNoKeys, "an operation")
	assert.Equal(t, operation.Pending, o.Outcome())
}

// Waits without a key compete for nothing, so none of them stands in line behind another.
func TestAWaitWithoutAKeyStandsInNoLine(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
	_, err := p.StartWait(time.Second, func() bool { return false })
	require.NoError(t, err)
	w, err := p.StartWait(time.Second, func() bool { return true })
	require.NoError(t, err)
	require.NoError(t, w.Err(), "ended at once")
	tries := 0
	w, err = p.StartWait(time.Second, func() bool { tries++; return tries == 2 })
	require.NoError(t, err)
	require.NoError(t, w.Err(), "tried again when it waits")
	tries = 0
	require.NoError(t, p.Await(t.Context(), time.Second, func() bool { tries++; return true }))
	assert.Equal(t, 1, tries)
}

// No check of a NaN finds an operation, but the one in order that takes the place of its second try does.
func TestWhoWaitsForANaNIsTriedAgainInOrder(t *testing.T) {
	p := onManualClock[float64](t, purgatory.WithFirstInFirstOut())
	tries := 0
	w, err := p.StartWait(time.Second, func() bool { tries++; return tries == 2 }, math.NaN())
	require.NoError(t, err)
	require.NoError(t, w.Err(), "a change of state before a check is seen")
}

func TestKeysYieldsTheKeysThatOperationsWaitFor(t *testing.T) {
	for _, shards := range []int{1, 64} {
		p := open[int](t, purgatory.WithWatcherShards(shards))
		assert.Empty(t, slices.Collect(p.Keys()))
		var set atomic.Bool
		for i := range 3000 {
			wait(t, p, &flagged{flag: &set}, i, i%10)
		}
		keys := slices.Sorted(p.Keys())
		require.Len(t, keys, 3000)
		assert.Equal(t, []int{0, 1, 2999}, []int{keys[0], keys[1], keys[2999]})
		for range p.Keys() {
			break
		}
		set.Store(true)
		for key := range p.Keys() { // no lock is held in the body
			p.CheckAndComplete(key)
		}
		p.AdvanceClock(0)
		assert.Zero(t, p.NumKeys())
	}
}

func TestKeysYieldsEveryKeyThatStaysThroughout(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(1))
	var stay, set atomic.Bool
	const staying = 400
	for i := range staying {
		wait(t, p, &flagged{flag: &stay}, -1-i)
	}
	for _, coming := range []int{0, 20_000} { // operations that come during the walk
		for i := range coming {
			wait(t, p, &flagged{flag: &set}, i)
		}
		met := map[int]bool{}
		step := 0
		for key := range p.Keys() {
			if key < 0 {
				met[key] = true
			}
			if step++; step == 150 {
				set.Store(coming > 0)
				for i := range 20_000 {
					if coming > 0 {
						p.CheckAndComplete(i)
					} else {
						wait(t, p, &flagged{flag: &set}, i)
					}
				}
			}
		}
		assert.Len(t, met, staying)
		set.Store(true)
		for key := range p.Keys() {
			p.CheckAndComplete(key)
		}
		set.Store(false)
	}
	assert.Equal(t, staying, p.NumKeys())
	stay.Store(true)
	for key := range p.Keys() {
		p.CheckAndComplete(key)
	}
	assert.Zero(t, p.NumDelayed())
}

// Operations that register while somebody checks each key of Keys see the change, or are tried.
func TestACheckOfEachOfKeysMissesNoRegistration(t *testing.T) {
	for name, all := range map[string]func(p *purgatory.DelayedOperationPurgatory[int]){
		"check": func(p *purgatory.DelayedOperationPurgatory[int]) {
			for key := range p.Keys() {
				p.CheckAndComplete(key)
			}
		},
		"signal": func(p *purgatory.DelayedOperationPurgatory[int]) {
			for key := range p.Keys() {
				p.Signal(key)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open[int](t)
			for round := range 50 {
				var set atomic.Bool
				var done atomic.Int64
				var wg sync.WaitGroup
				for g := range 4 {
					wg.Go(func() {
						for i := range 100 {
							_, err := p.TryCompleteElseWatch(&flagged{flag: &set, done: func() { done.Add(1) }}, time.Hour, g*1000+i, round)
							assert.NoError(t, err)
						}
					})
				}
				runtime.Gosched()
				set.Store(true)
				all(p)
				wg.Wait()
				eventually(t, func() bool { return done.Load() == 400 }, "done.Load() == 400")
			}
			p.AdvanceClock(0)
			assert.Zero(t, p.NumKeys())
		})
	}
}

func TestAsManyKeysAsThereMayBe(t *testing.T) {
	p := onManualClock[int](t)
	keys := make([]int, operation.MaxKeys)
	for i := range keys {
		keys[i] = i
	}
	var met atomic.Bool
	a, b := until(&met), until(&met)
	submit(t, p, a, hour, keys...)
	submit(t, p, b, hour, keys...)
	assert.Zero(t, p.CheckAndComplete(keys...))
	met.Store(true)
	p.Signal(keys...)
	eventually(t, func() bool { return a.completed.Load()+b.completed.Load() == 2 }, "both end")
	empty(t, p)
}

// A wake-up by one key of several, while the call of others is under way.
func TestCallsThatShareKeysLoseNothing(t *testing.T) {
	p := open[int](t, purgatory.WithSignalWorkers(4), purgatory.WithWatcherShards(4))
	const keys, rounds = 6, 3000
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

func TestKeysThatCannotBeHashedChangeNothing(t *testing.T) {
	p := onManualClock[any](t)
	o := &op{}
	submit[any](t, p, o, hour, "a")
	bad := any([]int{1})
	tries := o.tries.Load()
	for _, f := range []func(){
		func() { p.Signal("a", bad) }, func() { p.CheckAndComplete("a", bad) }, func() { p.CheckAndComplete(bad) },
		func() { p.SignalUpTo(bad, 1) }, func() { p.CancelForKey(bad, nil) }, func() { p.SignalUpTo(bad, 1) },
		func() { _, _ = p.TryCompleteElseWatch(&op{}, hour, "a", bad) },
		func() { _ = p.Await(context.Background(), hour, func() bool { return false }, "a", bad) },
	} {
		assert.Panics(t, f)
	}
	assert.Equal(t, tries, o.tries.Load())
	assert.Equal(t, 1, p.NumDelayed())
	assert.Equal(t, 1, p.Watched())
}

// The purgatory does not read the slice of keys once the first TryComplete has begun.
func TestKeysAreReadBeforeTheFirstTry(t *testing.T) {
	for _, n := range []int{1, 4, 5, 100} {
		p := onManualClock[int](t)
		keys := make([]int, n)
		for i := range keys {
			keys[i] = i
		}
		at := make([]purgatory.KeyPosition[int], n)
		for i := range at {
			at[i] = purgatory.KeyPosition[int]{Key: i, Position: int64(i)}
		}
		byKey := &op{try: func() bool { clear(keys); return false }}
		byPosition := &op{try: func() bool { clear(at); return false }}
		submit(t, p, byKey, hour, keys...)
		_, err := p.TryCompleteElseWatchAt(byPosition, hour, at...)
		require.NoError(t, err)
		assert.Equal(t, 2*n, p.Watched())
		assert.Equal(t, n, p.NumKeys())
		last := n - 1
		byKey.try, byPosition.try = func() bool { return true }, func() bool { return true }
		assert.Equal(t, 1, p.CheckAndCompleteUpTo(last, int64(last)-1))
		assert.Equal(t, 1, p.CheckAndCompleteUpTo(last, int64(last)))
		empty(t, p)
	}
}

func TestChangingTheKeysInTryCompleteHasNoEffect(t *testing.T) {
	p := onManualClock[string](t)
	keys := []string{"a", "b", "c", "d", "e", "f"}
	o := &op{try: func() bool {
		for i := range keys {
			keys[i] = "filtered"
		}
		return false
	}}
	submit(t, p, o, hour, keys...)
	tries := o.tries.Load()
	for _, key := range []string{"a", "f"} {
		p.CheckAndComplete(key)
		tries++
		assert.Equal(t, tries, o.tries.Load(), key)
	}
	p.CheckAndComplete("filtered")
	assert.Equal(t, tries, o.tries.Load())
	assert.Equal(t, 6, p.NumKeys())
}

// Every method that takes keys or positions refuses none and too many of them, and accepts as many
// as there may be.
func TestEveryMethodBoundsItsKeysAndPositions(t *testing.T) {
	p := onManualClock[int](t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	no := func() bool { return false }
	noValue := func() (int, bool) { return 0, false }
	positions := func(keys []int) (at []purgatory.KeyPosition[int]) {
		for _, key := range keys {
			at = append(at, purgatory.KeyPosition[int]{Key: key, Position: 1})
		}
		return at
	}
	for name, call := range map[string]func(keys []int) error{
		"TryCompleteElseWatch": func(keys []int) error {
			_, err := p.TryCompleteElseWatch(&op{}, 0, keys...)
			return err
		},
		"TryCompleteElseWatchAt": func(keys []int) error {
			_, err := p.TryCompleteElseWatchAt(&op{}, 0, positions(keys)...)
			return err
		},
		"Await":      func(keys []int) error { return p.Await(ctx, 0, no, keys...) },
		"AwaitAt":    func(keys []int) error { return p.AwaitAt(ctx, 0, no, positions(keys)...) },
		"AwaitValue": func(keys []int) error { _, err := purgatory.AwaitValue(ctx, p, 0, noValue, keys...); return err },
		"StartWait":  func(keys []int) error { _, err := p.StartWait(0, no, keys...); return err },
	} {
		t.Run(name, func(t *testing.T) {
			all := make([]int, operation.MaxKeys+1)
			for i := range all {
				all[i] = i
			}
			assert.ErrorIs(t, call(nil), purgatory.ErrNoKeys)
			assert.ErrorIs(t, call(all), purgatory.ErrTooManyKeys)
			for _, keys := range [][]int{all[:1], all[:operation.MaxKeys]} {
				if err := call(keys); err != nil {
					assert.ErrorIs(t, err, purgatory.ErrExpired)
				}
				p.AdvanceClock(0)
			}
			empty(t, p)
		})
	}
	conserved(t, p)
}

// Those who wait without a key stand under none in Inspect: not under the key's zero value, which may be a key
// that others wait for and check.
func TestThoseWithoutAKeyStandUnderNoneInInspect(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(64))
	no := func() bool { return false }
	_, err := p.StartWait(time.Hour, no, "")
	require.NoError(t, err)
	_, err = p.StartWait(time.Second, no)
	require.NoError(t, err)
	in := p.Inspect(10, 10)
	require.Len(t, in.Hot, 1)
	assert.Equal(t, []any{"", int64(1), 1}, []any{in.Hot[0].Key, in.Hot[0].Watched, in.Hot[0].Waiting})
	require.Len(t, in.Oldest, 2)
	assert.ElementsMatch(t, []int{1, 0}, []int{in.Oldest[0].Keys, in.Oldest[1].Keys})
	p.AdvanceClock(2 * time.Second)
	assert.Empty(t, p.Inspect(10, 10).Expiring, "the wait has expired, and it has no key")
}
