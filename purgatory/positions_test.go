package purgatory_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
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

// Operations that wait for a position on a key.

// atPosition registers o, which waits for position on key.
func atPosition[K comparable](t *testing.T, p *purgatory.Purgatory[K], o operation.Operation, key K, position int64) {
	t.Helper()
	completed, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[K]{Key: key, Position: position})
	require.NoError(t, err)
	require.False(t, completed)
}

// thresholds is a log, and the positions of the operations that a check has tried, in order.
type thresholds struct {
	p     *stringPurgatory
	end   int64
	tried []int64
	on    bool
}

func (l *thresholds) waiter(position int64) *op {
	o := &op{}
	o.try = func() bool {
		if l.on {
			l.tried = append(l.tried, position)
		}
		return l.end >= position
	}
	return o
}

// check moves the log to end, and returns the positions that were tried.
func (l *thresholds) check(end int64) (completed int, tried []int64) {
	l.end, l.tried, l.on = end, nil, true
	completed = l.p.CheckAndCompleteUpTo("log", end)
	l.on = false
	return completed, l.tried
}

func TestACheckUpToAPositionTriesInOrder(t *testing.T) {
	l := &thresholds{p: onManualClock[string](t), end: -100}
	for _, position := range []int64{50, 10, 30, 20, 40, 10, -5, math.MaxInt64} {
		atPosition(t, l.p, l.waiter(position), "log", position)
	}
	n, tried := l.check(-6)
	assert.Zero(t, n)
	assert.Empty(t, tried)
	n, tried = l.check(30)
	assert.Equal(t, 5, n)
	assert.Equal(t, []int64{-5, 10, 10, 20, 30}, tried)
	n, tried = l.check(49)
	assert.Equal(t, 1, n)
	assert.Equal(t, []int64{40}, tried)
	n, tried = l.check(50)
	assert.Equal(t, 1, n)
	assert.Equal(t, []int64{50}, tried)
	assert.Equal(t, 1, l.p.NumDelayed())
	n, tried = l.check(math.MaxInt64)
	assert.Equal(t, 1, n)
	assert.Equal(t, []int64{math.MaxInt64}, tried)
	empty(t, l.p)
}

func TestEqualPositionsAreTriedInRegistrationOrder(t *testing.T) {
	p := onManualClock[string](t)
	var order []int
	for i := range 500 {
		o := &op{}
		o.try = func() bool { return o.tries.Load() > 2 }
		o.complete = func() { order = append(order, i) }
		atPosition(t, p, o, "log", 7)
		if i%5 == 0 { // operations at other positions
			atPosition(t, p, &op{}, "log", int64(i%2)*100)
		}
	}
	assert.Equal(t, 500, p.CheckAndCompleteUpTo("log", 7))
	assert.True(t, slices.IsSorted(order))
}

func TestOneKeyHoldsWaitersWithAndWithoutPositions(t *testing.T) {
	p := onManualClock[string](t)
	ordered, unordered, never := &op{}, &op{}, &op{}
	atPosition(t, p, ordered, "log", 100)
	submit(t, p, unordered, hour, "log")
	atPosition(t, p, never, "log", purgatory.AnyPosition) // position Any is the same as no position
	assert.Equal(t, 1, int(p.Stats().Keys))
	base := [3]int32{ordered.tries.Load(), unordered.tries.Load(), never.tries.Load()}
	p.CheckAndCompleteUpTo("log", 99)
	assert.Equal(t, base[0], ordered.tries.Load(), "not reached")
	assert.Equal(t, base[1]+1, unordered.tries.Load(), "tried at every event")
	assert.Equal(t, base[2]+1, never.tries.Load(), "tried at every event")
	p.CheckAndCompleteUpTo("log", 100)
	assert.Equal(t, base[0]+1, ordered.tries.Load())
	p.CheckAndComplete("log")
	assert.Equal(t, base[0]+2, ordered.tries.Load(), "CheckAndComplete reaches everybody")
	p.CheckAndCompleteUpTo("log", purgatory.AnyPosition)
	assert.Equal(t, base[0]+2, ordered.tries.Load())
	assert.Equal(t, base[1]+4, unordered.tries.Load())
	assert.Equal(t, 3, p.CancelForKey("log", errGone), "of both kinds")
	empty(t, p)
}

func TestAnOperationWaitsOnSeveralKeysAtDifferentPositions(t *testing.T) {
	p := onManualClock[string](t)
	var a, b atomic.Int64
	o := &op{try: func() bool { return a.Load() >= 10 && b.Load() >= 20 }}
	_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "b", Position: 20}, purgatory.KeyPosition[string]{Key: "a", Position: 10},
		purgatory.KeyPosition[string]{Key: "a", Position: 15})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 3, 2}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
	tries := o.tries.Load()
	a.Store(9)
	assert.Zero(t, p.CheckAndCompleteUpTo("a", 9))
	assert.Equal(t, tries, o.tries.Load())
	a.Store(10)
	assert.Zero(t, p.CheckAndCompleteUpTo("a", 10))
	assert.Equal(t, tries+1, o.tries.Load())
	b.Store(20)
	assert.Equal(t, 1, p.CheckAndCompleteUpTo("b", 20))
	ended(t, o, operation.Satisfied)
	empty(t, p)
}

func TestAPositionThatIsReachedAlreadyDoesNotWait(t *testing.T) {
	p := onManualClock[string](t)
	completed, err := p.TryCompleteElseWatchAt(&op{try: func() bool { return true }}, hour, purgatory.KeyPosition[string]{Key: "log", Position: 3})
	require.NoError(t, err)
	assert.True(t, completed)
	// The position is reached between the first try and the second.
	o := &op{}
	o.try = func() bool { return o.tries.Load() == 2 }
	completed, err = p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "log", Position: 3})
	require.NoError(t, err)
	assert.True(t, completed)
	empty(t, p) // an idle key is not in the map
}

func TestAPositionReachedDuringRegistrationIsSeen(t *testing.T) {
	p := open[string](t)
	const positions = 6000
	var end atomic.Int64
	var wg sync.WaitGroup
	ops := make([]*op, positions)
	for g := range 3 {
		wg.Go(func() {
			for i := g; i < positions; i += 3 {
				o := &op{try: func() bool { return end.Load() >= int64(i) }}
				ops[i] = o
				_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "log", Position: int64(i)})
				assert.NoError(t, err)
			}
		})
	}
	wg.Go(func() {
		for i := int64(0); i < positions; i += 1 + i%5 {
			end.Store(i)
			if i%2 == 0 {
				p.CheckAndCompleteUpTo("log", i)
			} else {
				p.SignalUpTo("log", i)
			}
		}
		end.Store(positions)
		p.SignalUpTo("log", positions)
	})
	wg.Wait()
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "everything was reached")
	for _, o := range ops {
		eventually(t, func() bool { return o.completed.Load() == 1 }, "every callback runs")
		ended(t, o, operation.Satisfied)
	}
	empty(t, p)
}

func TestPositionsAgainstASortedModel(t *testing.T) {
	// Many operations wait for random positions and end in every way. In each step exactly
	// those are tried that a sorted model has, in its order.
	for seed, waiters := range []int{12_000, 1000, 100, 200, 300} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			l := &thresholds{p: onManualClock[string](t), end: -1}
			type waiter struct {
				position int64
				op       *op
			}
			var model []waiter // sorted by position, then by arrival
			next := int64(0)
			add := func() {
				position := next
				switch rng.IntN(4) {
				case 0:
					position = rng.Int64N(next + 1000)
				case 1:
					position = max(0, next-rng.Int64N(100))
				}
				next++
				position = max(position, l.end+1)
				o := l.waiter(position)
				atPosition(t, l.p, o, "log", position)
				i, _ := slices.BinarySearchFunc(model, position, func(w waiter, p int64) int {
					if w.position <= p {
						return -1
					}
					return 1
				})
				model = slices.Insert(model, i, waiter{position, o})
			}
			for range waiters {
				add()
			}
			for l.p.NumDelayed() > 0 {
				switch rng.IntN(3) {
				case 0:
					for range rng.IntN(20) {
						add()
					}
				case 1:
					for range rng.IntN(40) {
						if len(model) == 0 {
							break
						}
						i := rng.IntN(len(model))
						require.True(t, l.p.ForceComplete(model[i].op))
						model = slices.Delete(model, i, i+1)
					}
				}
				end := l.end + 1 + rng.Int64N(400)
				n, tried := l.check(end)
				var want []int64
				for len(model) > 0 && model[0].position <= end {
					want = append(want, model[0].position)
					assert.Equal(t, operation.Satisfied, model[0].op.Outcome())
					model = model[1:]
				}
				require.Equal(t, want, tried)
				require.Equal(t, len(want), n)
				require.Equal(t, len(model), l.p.NumDelayed())
			}
			empty(t, l.p)
		})
	}
}

func TestACheckTriesNoWaiterOfAHigherPosition(t *testing.T) {
	for _, n := range []int{100, 20_000} {
		p := onManualClock[string](t)
		for i := range n {
			atPosition(t, p, &op{}, "log", int64(1000+i))
		}
		checks := p.Stats().Checks
		for i := range int64(1000) {
			p.CheckAndCompleteUpTo("log", i)
		}
		assert.Equal(t, checks, p.Stats().Checks)
		p.CheckAndCompleteUpTo("log", 1009)
		assert.Equal(t, checks+10, p.Stats().Checks)
		assert.Equal(t, checks+10, p.Stats().WastedChecks)
	}
}

func TestWaitersRegisteredByACallbackKeepPositionOrder(t *testing.T) {
	l := &thresholds{p: onManualClock[string](t)}
	for i := range int64(300) {
		o := l.waiter(i)
		o.complete = func() {
			l.on = false
			defer func() { l.on = true }()
			// At higher, at lower and at intermediate positions, while the check runs.
			for _, position := range []int64{i + 1000, l.end + 1, l.end + 2} {
				atPosition(t, l.p, l.waiter(position), "log", position)
			}
		}
		if i > 0 {
			atPosition(t, l.p, o, "log", i)
		}
	}
	_, tried := l.check(299)
	assert.Len(t, tried[:299], 299)
	assert.True(t, slices.IsSorted(tried[:299]))
	_, tried = l.check(math.MaxInt64 - 1)
	assert.True(t, slices.IsSortedFunc(tried, cmp.Compare[int64]))
	assert.Len(t, tried, 897)
	empty(t, l.p)
}

func TestWaitersForAPositionTimeOut(t *testing.T) {
	p := onManualClock[string](t)
	var all []*op
	for i := range 200 {
		o := &op{}
		_, err := p.TryCompleteElseWatchAt(o, time.Duration(1+i)*time.Second, purgatory.KeyPosition[string]{Key: "log", Position: int64(i * 37 % 200)})
		require.NoError(t, err)
		all = append(all, o)
	}
	for i, o := range all {
		pending(t, o)
		p.AdvanceClock(time.Second)
		ended(t, o, operation.Expired)
		assert.Equal(t, 199-i, p.Watched())
	}
	empty(t, p)
}

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

// A check up to a position tries what waits when it begins. Operations that keep arriving at or below the position must not keep its
// caller, also if one waits beyond it.
func TestOperationsThatKeepArrivingDoNotKeepACheckUpToAPosition(t *testing.T) {
	for name, beyond := range map[string]int{"nothing beyond": 0, "one beyond": 1} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			const waiting, enough = 200, 2000
			var registered atomic.Int64
			var arrive func()
			arrive = func() {
				if registered.Add(1) > enough {
					return
				}
				o := &op{complete: func() { arrive() }}
				o.try = func() bool { return o.tries.Load() > 2 } // not while it registers, unless a worker asks for a try
				_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: 5})
				assert.NoError(t, err)
			}
			for range waiting {
				arrive()
			}
			atPosition(t, p, &op{}, "a", 0)
			if beyond > 0 {
				atPosition(t, p, &op{}, "a", 2000)
			}
			assert.LessOrEqual(t, p.CheckAndCompleteUpTo("a", 1000), 2*(waiting+2)+2*purgatory.BatchSize, "of %d operations that waited", waiting)
			eventually(t, func() bool {
				p.CheckAndCompleteUpTo("a", 1000)
				return registered.Load() > enough && p.AtRest() && p.NumDelayed() == 1+beyond
			}, "the rest ends")
		})
	}
}

// A cancellation ends what waits when it begins: not what its callbacks register, whatever position that waits for.
func TestACancellationEndsWhatWaitedWhenItBegan(t *testing.T) {
	p := onManualClock[string](t)
	const waiting = 200
	var again []*op
	for i := range int64(waiting) {
		atPosition(t, p, &op{complete: func() {
			o := &op{}
			atPosition(t, p, o, "a", waiting-i)
			again = append(again, o)
		}}, "a", i)
	}
	assert.Equal(t, waiting, p.CancelForKey("a", nil))
	for _, o := range again {
		pending(t, o)
	}
	assert.Equal(t, waiting, p.CancelForKey("a", nil))
	empty(t, p)
}
