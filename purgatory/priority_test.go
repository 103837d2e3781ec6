package purgatory_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// ranked is a line in which a position is a rank: the lowest goes first.
type ranked struct {
	t     *testing.T
	p     *intPurgatory
	items int
	came  int
	line  []*rankedOp // the model: those who wait, in the order in which they have to go
	went  []*rankedOp
}

type rankedOp struct {
	op
	position int64
	n        int // the order of arrival
}

func newRanked(t *testing.T, opts ...purgatory.Option) *ranked {
	return &ranked{t: t, p: onManualClock[int](t, opts...)}
}

// arrive lets one more wait, and reports whether it went at once.
func (r *ranked) arrive(position int64) (o *rankedOp, at bool) {
	o = &rankedOp{position: position, n: r.came}
	r.came++
	o.try = func() bool {
		if r.items == 0 {
			return false
		}
		r.items--
		return true
	}
	o.complete = func() {
		if o.Outcome() == operation.Satisfied {
			r.went = append(r.went, o)
		}
	}
	at, err := r.p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[int]{Key: 1, Position: position})
	require.NoError(r.t, err)
	if !at {
		r.line = append(r.line, o)
		slices.SortStableFunc(r.line, func(a, b *rankedOp) int {
			if a.position == b.position {
				return a.n - b.n
			}
			if a.position < b.position {
				return -1
			}
			return 1
		})
	}
	return o, at
}

// put adds items, which have to go to the first in line.
func (r *ranked) put(n int) {
	r.t.Helper()
	r.items += n
	r.went = nil
	r.p.CheckAndCompleteInOrder(1)
	synctest.Wait() // where it leaves work to a worker
	n = min(n, len(r.line))
	require.Len(r.t, r.went, n)
	for i, o := range r.went {
		require.Same(r.t, r.line[i], o)
	}
	r.line = r.line[n:]
}

// bothLines runs f with and without WithFirstInFirstOut.
func bothLines(t *testing.T, f func(t *testing.T, fifo bool, r *ranked)) {
	synctest.Test(t, func(t *testing.T) { f(t, true, newRanked(t, purgatory.WithFirstInFirstOut())) })
	synctest.Test(t, func(t *testing.T) { f(t, false, newRanked(t)) })
}

// Whoever comes and leaves in between: items go to the lowest position, and of equal ones to the one that came first.
// AnyPosition is the lowest, and EveryPosition the highest.
func TestPositionsArePriorities(t *testing.T) {
	bothLines(t, func(t *testing.T, _ bool, r *ranked) {
		random := rand.New(rand.NewPCG(1, 2))
		positions := []int64{purgatory.AnyPosition, -1, 0, 1, 2, purgatory.EveryPosition}
		for range 5_000 {
			switch random.IntN(5) {
			case 0, 1, 2:
				_, at := r.arrive(positions[random.IntN(len(positions))])
				require.False(t, at, "there is no item")
			case 3:
				r.put(min(1+random.IntN(3), len(r.line)))
			case 4:
				if len(r.line) > 0 {
					i := random.IntN(len(r.line))
					require.True(t, r.p.Cancel(r.line[i], nil))
					synctest.Wait() // a worker tries those behind it
					r.line = slices.Delete(r.line, i, i+1)
				}
			}
		}
		r.put(len(r.line))
		empty(t, r.p)
	})
}

// With positions that fall, the last one in is the first one out.
func TestFallingPositionsAreLastInFirstOut(t *testing.T) {
	bothLines(t, func(t *testing.T, _ bool, r *ranked) {
		var stack []*rankedOp
		random := rand.New(rand.NewPCG(3, 4))
		for range 2_000 {
			if random.IntN(2) == 0 || len(stack) == 0 {
				o, _ := r.arrive(-int64(r.came))
				stack = append(stack, o)
				continue
			}
			r.put(1)
			last := len(stack) - 1
			require.Equal(t, stack[last:], r.went)
			stack = stack[:last]
		}
	})
}

// An item has been added, and its check has not come yet. Without the option a newcomer takes it, whatever its
// priority. With the option it goes to the first in line, which may be the newcomer.
func TestWhoGetsAnItemWhenANewcomerArrives(t *testing.T) {
	const urgent, normal, bulk = 0, 1, 2
	bothLines(t, func(t *testing.T, fifo bool, r *ranked) {
		waiting, _ := r.arrive(normal)
		r.items++
		low, at := r.arrive(bulk)
		if fifo {
			require.False(t, at)
			require.Equal(t, []*rankedOp{waiting}, r.went)
			require.Equal(t, operation.Pending, low.Outcome())
		} else {
			require.True(t, at)
			require.Equal(t, []*rankedOp{low}, r.went)
			require.Equal(t, operation.Pending, waiting.Outcome())
		}
		r.went = nil
		r.items++
		high, at := r.arrive(urgent)
		require.True(t, at)
		require.Equal(t, []*rankedOp{high}, r.went, "it is urgent")
	})
}
