package stats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// observerOfKeys returns an observer of minKeys keys, and a function that returns the counts
// of a key among the hot and among the expiring ones, nil if it is not there. A key is its own
// hash, and ten operations for each unit of it wait.
func observerOfKeys(t *testing.T) (*Observer[int], func(key int) (hot, expiring *KeyCounts[int])) {
	t.Helper()
	o := NewObserver[int](Config{Keys: minKeys, Now: func() time.Duration { return time.Second }}, 1)
	return o, func(key int) (hot, expiring *KeyCounts[int]) {
		hots, expirings := o.Keys(nil, nil, func(key int, hash uint64) int {
			assert.EqualValues(t, key, hash)
			return 10 * key
		})
		find := func(all []KeyCounts[int]) *KeyCounts[int] {
			for i := range all {
				if all[i].Key == key {
					return &all[i]
				}
			}
			return nil
		}
		return find(hots), find(expirings)
	}
}

func TestAKeysOutcomesAreCountedFromItsFirstOperationOn(t *testing.T) {
	o, counts := observerOfKeys(t)
	m := since(0)
	o.Watched(m, true, 1, 1)
	for _, outcome := range []machine.Outcome{machine.Satisfied, machine.Forced, machine.Cancelled, machine.Closed} {
		o.Unwatched(m, true, outcome, 1, 1)
		hot, expiring := counts(1)
		assert.EqualValues(t, 1, hot.Ended[outcome])
		assert.Nil(t, expiring, "none of its operations has expired")
	}
	o.Unwatched(m, true, machine.Expired, 1, 1)
	_, first := counts(1)
	assert.Equal(t, [machine.NumOutcomes]int64{machine.Satisfied: 1, machine.Expired: 1, machine.Forced: 1, machine.Cancelled: 1, machine.Closed: 1}, first.Ended)
	o.Unwatched(m, true, machine.Forced, 1, 1)
	o.Unwatched(m, true, machine.Expired, 1, 1)
	want := [machine.NumOutcomes]int64{machine.Satisfied: 1, machine.Expired: 2, machine.Forced: 2, machine.Cancelled: 1, machine.Closed: 1}
	hot, expiring := counts(1)
	assert.Equal(t, want, hot.Ended)
	assert.Equal(t, want, expiring.Ended, "what ended before the first expiry is there, too")
	assert.Equal(t, 10, expiring.Waiting)
	assert.EqualValues(t, 2, expiring.Weight, "the expiries")
}

// Busy keys displace a quiet key whose operations all expire, but only from the hot ones.
func TestAQuietKeyWhoseOperationsExpireIsSeen(t *testing.T) {
	o, counts := observerOfKeys(t)
	m := since(0)
	for key := range minKeys {
		o.Watched(m, true, 100+key, uint64(100+key))
		o.Tried(100+key, uint64(100+key), 50, 50)
	}
	o.Unwatched(m, true, machine.Expired, 1, 1) // among many keys, it is not in the sketch of the hot ones
	hot, expiring := counts(1)
	assert.Nil(t, hot)
	assert.Equal(t, [machine.NumOutcomes]int64{machine.Expired: 1}, expiring.Ended)

	o.Watched(m, true, 2, 2)
	o.Tried(2, 2, 7, 6)
	o.Unwatched(m, true, machine.Expired, 2, 2)
	_, expiring = counts(2)
	require.NotNil(t, expiring)
	assert.Equal(t, []int64{1, 7, 6}, []int64{expiring.Watched, expiring.Tries, expiring.Wasted})
	for key := range 2 * minKeys {
		o.Tried(200+key, uint64(200+key), 500, 500)
	}
	hot, expiring = counts(2)
	require.Nil(t, hot)
	require.NotNil(t, expiring)
	assert.Zero(t, expiring.Watched, "nobody has counted them meanwhile")
	assert.Zero(t, expiring.Tries)
	assert.Zero(t, expiring.Wasted)
}
