package watchers

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// sumOf is what Stats does: it adds up the shards.
func sumOf(shards []*Times) *Times {
	sum := new(Times)
	for _, s := range shards {
		s.addTo(sum)
	}
	return sum
}

// TestAgesAgainstSortedModel lets time pass in steps of all sizes, with operations that start in one shard and end
// in another, and compares the oldest with the truth.
func TestAgesAgainstSortedModel(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		shards := []*Times{new(Times), new(Times), new(Times)}
		one := func() *Times { return shards[r.IntN(len(shards))] }
		var waiting []time.Duration
		now := time.Duration(r.Int64N(int64(time.Hour)))
		for range 3000 {
			switch r.IntN(5) {
			case 0, 1:
				one().ages.started(now)
				waiting = append(waiting, now)
			case 2:
				if len(waiting) > 0 {
					i := r.IntN(len(waiting))
					one().ages.ended(waiting[i], now, 1)
					waiting = append(waiting[:i], waiting[i+1:]...)
				}
			default:
				now += time.Duration(r.Int64N(1 << (10 + r.IntN(34))))
			}
			if r.IntN(50) == 0 {
				requireOldest(t, sumOf(shards), waiting, now)
			}
		}
		for _, start := range waiting {
			one().ages.ended(start, now, 1)
		}
		requireOldest(t, sumOf(shards), nil, now)
	}
}

func requireOldest(t *testing.T, sum *Times, waiting []time.Duration, now time.Duration) {
	t.Helper()
	oldest, all := sum.Ages(now)
	var want time.Duration
	for _, start := range waiting {
		want = max(want, now-start)
	}
	var n int64
	for _, c := range all.Counts {
		n += c
	}
	require.EqualValues(t, len(waiting), n)
	if len(waiting) == 0 {
		require.Zero(t, oldest)
		return
	}
	require.GreaterOrEqual(t, oldest, want)
	require.LessOrEqual(t, oldest-want, max(time.Duration(1)<<ageShift, want*4/63))
}

// TestAgesAtTheEdgeOfALevel ends an operation whose start has just left the lowest level, or is about to.
func TestAgesAtTheEdgeOfALevel(t *testing.T) {
	for cells := range time.Duration(2 * ageCells) {
		s := new(Times)
		s.ages.started(0)
		now := cells << ageShift
		s.ages.started(now)
		s.ages.ended(0, now, 1)
		requireOldest(t, sumOf([]*Times{s}), []time.Duration{now}, now)
	}
}

func TestAgesReachBackThreeHundredYears(t *testing.T) {
	s := new(Times)
	s.ages.started(0)
	for year := range 290 {
		now := time.Duration(year) * 365 * 24 * time.Hour
		s.ages.started(now)
		s.ages.ended(now, now, 1)
		requireOldest(t, sumOf([]*Times{s}), []time.Duration{0}, now)
	}
	require.LessOrEqual(t, len(s.ages.levels), 19)
}

func TestBucketsHoldTheirBounds(t *testing.T) {
	for i := range Buckets - 1 {
		bound := WaitUnit << i
		require.Equal(t, i, waitBucket(bound), "a bound is inclusive")
		require.Equal(t, i+1, waitBucket(bound+1))
		bound = LateUnit << i
		require.Equal(t, i, lateBucket(bound))
		require.Equal(t, i+1, lateBucket(bound+1))
	}
	require.Zero(t, waitBucket(0))
	require.Zero(t, waitBucket(-time.Hour), "a clock that was read before the lock was taken")
	require.Equal(t, Buckets-1, waitBucket(1<<62))
}

func TestWaitBoundsAreThoseOfTheBucket(t *testing.T) {
	for bucket := range Buckets {
		after, upTo := waitBounds(bucket)
		require.Equal(t, bucket, waitBucket(after+1))
		require.Equal(t, bucket, waitBucket(upTo))
		if bucket > 0 {
			require.Equal(t, bucket-1, waitBucket(after))
		}
		if bucket < Buckets-1 {
			require.Equal(t, bucket+1, waitBucket(upTo+1))
			next, _ := waitBounds(bucket + 1)
			require.Equal(t, upTo, next, "there is nothing between two buckets")
		}
	}
	after, _ := waitBounds(0)
	require.Negative(t, after, "who did not wait is in the first")
	_, upTo := waitBounds(Buckets - 1)
	require.EqualValues(t, math.MaxInt64, upTo)
	require.Equal(t, Buckets-1, lateBucket(1<<62))
}

// since returns a machine of an operation that was accepted at start.
func since(start time.Duration) *operation.Machine {
	m := operation.Of(&waiter{})
	m.SetStart(start)
	return m
}

// TestEndingsAgainstOneByOne: what is counted as a run is the same as if each were counted for itself.
func TestEndingsAgainstOneByOne(t *testing.T) {
	const now = 10 * time.Hour
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var times Times
		var want [operation.Outcomes][Buckets]int64
		var waited [operation.Outcomes]time.Duration
		all := endings{times: &times, now: now}
		o, length := operation.Forced, time.Duration(0)
		for range 100 {
			if r.IntN(4) == 0 {
				o = operation.Satisfied + operation.Outcome(r.IntN(2))
			}
			switch r.IntN(6) {
			case 0: // a bound of a bucket, or just beside it
				length = WaitUnit<<r.IntN(Buckets-1) + time.Duration(r.IntN(3)-1)
			case 1: // in another cell, and mostly in the same bucket
				length += time.Duration(1+r.IntN(2)) << ageShift
			case 2:
				length = time.Duration(r.IntN(2)) * -time.Millisecond // accepted after the clock was read
			}
			m := since(now - length)
			times.ages.started(m.Start())
			all.add(m, o)
			want[o][waitBucket(length)]++
			waited[o] += max(length, 0)
		}
		all.flush()
		for o := range want {
			require.Equal(t, want[o], times.Waited[o].Counts)
			require.InDelta(t, waited[o]/time.Microsecond, times.Waited[o].Micros, 100, "each run is rounded for itself")
		}
		requireOldest(t, sumOf([]*Times{&times}), nil, now)
	}
}

// TestEndingsOfLongWaits: the sum of a run does not overflow.
func TestEndingsOfLongWaits(t *testing.T) {
	const years = 200 * 365 * 24 * time.Hour
	var times Times
	all := endings{times: &times, now: years}
	for range 4 {
		all.add(since(0), operation.Closed)
	}
	all.flush()
	assert.EqualValues(t, 4, times.Waited[operation.Closed].Counts[Buckets-1])
	assert.EqualValues(t, 4*(years/time.Microsecond), times.Waited[operation.Closed].Micros)
}

// TestLatenessIsThatOfTheExpired: behind their deadline, if they had one.
func TestLatenessIsThatOfTheExpired(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	var times Times
	all := endings{times: &times, now: time.Second}
	var m *operation.Machine
	for _, late := range []time.Duration{-time.Millisecond, 0, 2 * LateUnit, 3 * time.Millisecond} {
		op := &waiter{}
		m = operation.Of(op)
		require.True(t, m.Begin(op, 1))
		require.NoError(t, clock.AddAt(m.Entry(), 0, time.Second-late))
		all.add(m, operation.Expired)
	}
	all.add(since(0), operation.Expired) // ended before the timer had it
	all.add(m, operation.Forced)
	all.flush()
	var want [Buckets]int64
	want[0], want[1], want[5] = 2, 1, 1
	assert.Equal(t, want, times.Late.Counts)
	assert.EqualValues(t, 3250, times.Late.Micros)
	assert.EqualValues(t, 5, times.Waited[operation.Expired].Counts[10])

	sum := new(Times)
	for range 2 {
		times.addTo(sum)
	}
	assert.EqualValues(t, 6500, sum.Late.Micros)
	assert.Equal(t, 2*times.Waited[operation.Forced].Micros, sum.Waited[operation.Forced].Micros)
}

// TestAgesOfOperationsThatCameAndWent while the shards were summed: the one in which they ended was asked, the one
// in which they began was not, or the other way round.
func TestAgesOfOperationsThatCameAndWent(t *testing.T) {
	s := new(Times)
	s.ages.ended(time.Minute, time.Hour, 1)
	requireOldest(t, s, nil, time.Hour)
	s.ages.started(2 * time.Hour)
	requireOldest(t, s, []time.Duration{2 * time.Hour}, 2*time.Hour-1)

	oldest, all := s.Ages(3 * time.Hour)
	assert.InEpsilon(t, time.Hour, oldest, 0.07)
	assert.EqualValues(t, oldest/time.Microsecond, all.Micros)
}
