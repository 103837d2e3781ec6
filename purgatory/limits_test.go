package purgatory_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestPositionsAtBothEnds(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	all := map[int64]*op{}
	for _, at := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
		for range 200 {
			o := until(&met)
			_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: at})
			require.NoError(t, err)
			all[at] = o
		}
	}
	met.Store(true)
	for _, c := range []struct {
		upTo int64
		n    int
	}{{math.MinInt64, 200}, {math.MinInt64 + 1, 200}, {0, 400}, {math.MaxInt64 - 1, 400}, {math.MaxInt64, 200}} {
		assert.Equal(t, c.n, p.CheckAndCompleteUpTo("a", c.upTo), "up to %d", c.upTo)
	}
	empty(t, p)
}

func TestTimeoutsAtBothEnds(t *testing.T) {
	p := open[string](t)
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1} {
		o := &op{}
		_, err := p.TryCompleteElseWatch(o, d, "a")
		require.NoError(t, err)
		eventually(t, func() bool { return o.expired.Load() == 1 }, "it expires")
	}
	o := &op{}
	submit(t, p, o, math.MaxInt64, "a")
	assert.True(t, p.Extend(o, math.MaxInt64))
	assert.True(t, p.Extend(o, hour))
	assert.True(t, p.Extend(o, math.MinInt64))
	eventually(t, func() bool { return o.expired.Load() == 1 }, "it expires")
	empty(t, p)
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

// A callback that blocks during a call of several keys must not keep the operations in memory
// that the call has ended before.
func TestACallOfSeveralKeysPinsNoEndedOperation(t *testing.T) {
	for name, call := range map[string]func(p *stringPurgatory, keys ...string){
		"one by one": func(p *stringPurgatory, keys ...string) {
			for _, k := range keys {
				p.Signal(k)
			}
		},
		"signal": (*stringPurgatory).Signal,
		"check":  func(p *stringPurgatory, keys ...string) { go p.CheckAndComplete(keys...) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			p := onManualClock[string](t, purgatory.WithSignalWorkers(1), purgatory.WithWatcherShards(1))
			var met atomic.Bool
			var freed weak.Pointer[op]
			var answered atomic.Bool
			func() {
				o := until(&met)
				o.complete = func() { answered.Store(true) }
				submit(t, p, o, hour, "a", "b")
				freed = weak.Make(o)
			}()
			submit(t, p, &op{try: met.Load, complete: g.pass}, hour, "c", "d")
			submitted(t, p, "z")
			met.Store(true)
			call(p, "a", "b", "c", "z")
			<-g.entered
			assert.True(t, answered.Load())
			gone(t, []weak.Pointer[op]{freed}) // its callbacks have returned
			close(g.leave)
		})
	}
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
		func() {
			_, _ = purgatory.AwaitRead(context.Background(), p, hour, func(context.Context) (int, bool, error) { return 0, false, nil }, "a", bad)
		},
	} {
		assert.Panics(t, f)
	}
	assert.Equal(t, tries, o.tries.Load())
	assert.Equal(t, 1, p.NumDelayed())
	assert.Equal(t, 1, p.Watched())
}

// A check up to a position tries what waits when it begins. Operations that keep arriving at
// or below the position must not keep its caller, also if one waits beyond the position.
func TestOperationsThatKeepArrivingDoNotKeepACheckUpToAPosition(t *testing.T) {
	for name, beyond := range map[string]bool{"nothing beyond": false, "one beyond": true} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			register := func(o *op, at int64) { // also on workers, when the test has ended and p is closed
				_, _ = p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: at})
			}
			const waiting, enough = 200, 20_000
			var registered atomic.Int64 // workers go on where the check stops
			var arrive func()
			arrive = func() {
				if registered.Add(1) > enough {
					return
				}
				o := &op{complete: func() { arrive() }}
				o.try = func() bool { return o.tries.Load() > 2 } // not while it registers
				register(o, 5)
			}
			for range waiting {
				arrive()
			}
			if beyond {
				register(&op{}, 2000)
			}
			assert.LessOrEqual(t, p.CheckAndCompleteUpTo("a", 1000), 2*(waiting+1)+2*128, "of %d operations that waited", waiting)
			registered.Store(enough) // no more while the purgatory closes
		})
	}
}
