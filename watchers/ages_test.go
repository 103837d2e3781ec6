package watchers

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
					one().ages.ended(waiting[i], now)
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
			one().ages.ended(start, now)
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

func TestAgesReachBackThreeHundredYears(t *testing.T) {
	s := new(Times)
	s.ages.started(0)
	for year := range 290 {
		now := time.Duration(year) * 365 * 24 * time.Hour
		s.ages.started(now)
		s.ages.ended(now, now)
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
