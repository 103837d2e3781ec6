package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// agesModel is ages, and the starts of the same operations one by one.
type agesModel struct {
	ages
	waiting []time.Duration
	newest  time.Duration // of all starts
}

func (a *agesModel) start(at time.Duration) {
	a.started(at)
	a.waiting = append(a.waiting, at)
	a.newest = max(a.newest, at)
}

// end ends the i-th operation.
func (a *agesModel) end(i int) {
	a.ended(a.waiting[i])
	last := len(a.waiting) - 1
	a.waiting[i] = a.waiting[last]
	a.waiting = a.waiting[:last]
}

// most is the number of cells that compact leaves at most if the oldest operation started span
// before the newest.
func most(span time.Duration) int {
	return 3 + int(33*math.Log(max(1, float64(span)/float64(ageUnit))))
}

// check compares every age with the truth, and the cells with their invariants.
func (a *agesModel) check(t *testing.T, now time.Duration) {
	t.Helper()
	starts := slices.Sorted(slices.Values(a.waiting))
	end := time.Duration(math.MinInt64)
	for _, c := range a.cells {
		require.LessOrEqual(t, end, c.start, "sorted, and disjoint")
		require.Less(t, c.start, c.end)
		require.Zero(t, (c.start|c.end)%ageUnit)
		end = c.end
		require.LessOrEqual(t, c.pending, int64(len(starts)), "it counts more operations than there are")
		for _, start := range starts[:c.pending] {
			if start < c.start || start >= c.end || start-c.start > max(ageUnit, (now-start)/16) {
				require.Failf(t, "the error of an age", "%v is counted from %v to %v, at %v", start, c.start, c.end, now)
			}
		}
		starts = starts[c.pending:]
	}
	require.Empty(t, starts, "it counts fewer operations than there are")

	var all Histogram
	oldest := a.addTo(&all, now)
	require.EqualValues(t, len(a.waiting), all.Count())
	if len(a.waiting) == 0 {
		require.Zero(t, oldest)
		return
	}
	first := slices.Min(a.waiting)
	require.GreaterOrEqual(t, oldest, now-first)
	require.LessOrEqual(t, oldest-(now-first), max(ageUnit, (now-first)/16))

	compacted := ages{slices.Clone(a.cells)}
	compacted.compact()
	require.LessOrEqual(t, len(compacted.cells), most(a.newest-first))
}

// Operations start and end while time passes in steps of all sizes. Some start before others
// that are counted already.
func TestAgesAgainstAModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		var a agesModel
		now := time.Duration(r.Int64N(int64(time.Hour)))
		largest := 20 + r.IntN(24) // step: from a millisecond to hours
		ends := r.IntN(3)          // of those in five steps
		for range 4000 {
			switch step := r.IntN(6); {
			case step < ends:
				if len(a.waiting) > 0 {
					a.end(r.IntN(len(a.waiting)))
				}
			case step < 4:
				late := time.Duration(0)
				if r.IntN(4) == 0 {
					late = time.Duration(r.Int64N(1 << (10 + r.IntN(largest))))
				}
				a.start(now - min(late, now))
			default:
				now += time.Duration(r.Int64N(1 << (10 + r.IntN(largest-9))))
			}
			if r.IntN(50) == 0 {
				a.check(t, now)
			}
		}
		for len(a.waiting) > 0 {
			a.end(len(a.waiting) - 1)
		}
		a.check(t, now)
	}
}

// Of a million operations most end soon, some late, and some never. There are never many cells,
// and adding one takes few steps.
func TestAgesOfAMillionOperations(t *testing.T) {
	const operations = 1_000_000
	r := rand.New(rand.NewPCG(1, 2))
	var a agesModel
	var now time.Duration
	added, steps := 0, 0
	for i := range operations {
		now += time.Duration(r.Int64N(int64(100 * time.Millisecond)))
		if i%(operations/10) == 0 {
			now += time.Hour // nobody comes
		}
		at := now - min(now, time.Duration(r.Int64N(int64(time.Millisecond))))
		cells, full := len(a.cells), false
		if before := a.upTo(at); before == 0 || at >= a.cells[before-1].end {
			added++
			full = cells+1 >= cap(a.cells)
		}
		a.start(at)
		if full {
			steps += cells + 1
			require.GreaterOrEqual(t, cap(a.cells)-len(a.cells), max(len(a.cells), minCells))
		}
		if len(a.cells) == cap(a.cells) || cap(a.cells) > 4*max(most(now), minCells) {
			require.Failf(t, "cells", "%d, and room for %d", len(a.cells), cap(a.cells))
		}
		if n := len(a.waiting); n > 100 && r.IntN(100) > 0 {
			a.end(n - 1 - r.IntN(100))
		}
		if i%(operations/50) == 0 {
			a.check(t, now)
		}
	}
	require.Greater(t, len(a.waiting), 1000, "some are old")
	a.check(t, now)
	assert.Greater(t, added, operations/3)
	assert.LessOrEqual(t, steps, 2*added)
}

// An operation whose start lies at the edge of a cell is found there when it ends.
func TestAgesAtTheEdgesOfCells(t *testing.T) {
	for _, cells := range []time.Duration{1, 2, 3, 20, 40, 100, 400} {
		var a agesModel
		for at := ageUnit; at <= (cells+1)*ageUnit; at += ageUnit {
			a.start(at - 1)
			a.start(at)
			a.start(at + 1)
			a.end(0) // the oldest, after which comes a young one
			a.check(t, at+1)
		}
		for len(a.waiting) > 0 {
			a.end(0)
		}
		a.check(t, (cells+2)*ageUnit)
	}
}

func TestAgesReachBackThreeHundredYears(t *testing.T) {
	var a agesModel
	a.start(0)
	for year := range 290 {
		now := time.Duration(year) * 365 * 24 * time.Hour
		a.start(now)
		a.end(len(a.waiting) - 1)
		a.check(t, now)
		a.start(now)
	}
}

func TestAgesAllocateNothingInASteadyState(t *testing.T) {
	var a ages
	now := time.Duration(0)
	minutes := func() {
		for range 10_000 { // each ends after a minute
			now += ageUnit
			a.started(now)
			if now > time.Minute {
				a.ended(now - time.Minute/ageUnit*ageUnit)
			}
		}
	}
	minutes()
	assert.Zero(t, testing.AllocsPerRun(5, minutes))
}

func TestBucketsHoldTheirBounds(t *testing.T) {
	for i := range NumBuckets - 1 {
		bound := WaitUnit << i
		require.Equal(t, i, bucket(bound, WaitUnit), "a bound is inclusive")
		require.Equal(t, i+1, bucket(bound+1, WaitUnit))
		bound = LateUnit << i
		require.Equal(t, i, bucket(bound, LateUnit))
		require.Equal(t, i+1, bucket(bound+1, LateUnit))
	}
	require.Zero(t, bucket(0, WaitUnit))
	require.Zero(t, bucket(-time.Hour, WaitUnit), "a clock that was read before the lock was taken")
	require.Equal(t, NumBuckets-1, bucket(1<<62, WaitUnit))
	require.Equal(t, NumBuckets-1, bucket(1<<62, LateUnit))
}
