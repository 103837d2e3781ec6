package stats

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sumOf adds up the shards, as Stats of a purgatory does.
func sumOf(shards []*Times) *Times {
	sum := new(Times)
	for _, s := range shards {
		s.AddTo(sum)
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
					one().ages.ended(waiting[i])
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
			one().ages.ended(start)
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
		s.ages.ended(0)
		requireOldest(t, sumOf([]*Times{s}), []time.Duration{now}, now)
	}
}

func TestAgesReachBackThreeHundredYears(t *testing.T) {
	s := new(Times)
	s.ages.started(0)
	for year := range 290 {
		now := time.Duration(year) * 365 * 24 * time.Hour
		s.ages.started(now)
		s.ages.ended(now)
		requireOldest(t, sumOf([]*Times{s}), []time.Duration{0}, now)
	}
	require.LessOrEqual(t, len(s.ages.levels), 19)
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

// Operations can come and go while the shards are summed: the sum then has their end and not
// their beginning, or the other way round.
func TestAgesIgnoreOperationsThatCameAndWentMeanwhile(t *testing.T) {
	s := new(Times)
	s.ages.ended(time.Minute)
	requireOldest(t, s, nil, time.Hour)
	s.ages.started(2 * time.Hour)
	requireOldest(t, s, []time.Duration{2 * time.Hour}, 2*time.Hour-1)

	oldest, all := s.Ages(3 * time.Hour)
	assert.InEpsilon(t, time.Hour, oldest, 0.07)
	assert.EqualValues(t, oldest/time.Microsecond, all.micros)
}
