package purgatory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

func TestOnlyTimeoutsIsFalseForKeysEverWoken(t *testing.T) {
	counts := func(outcomes ...operation.Outcome) *KeyReport {
		k := new(KeyReport)
		for _, o := range outcomes {
			k.Ended[o]++
		}
		return k
	}
	assert.False(t, counts().OnlyTimeouts())
	assert.True(t, counts(operation.Expired).OnlyTimeouts())
	assert.True(t, counts(operation.Expired, operation.Closed).OnlyTimeouts())
	assert.False(t, counts(operation.Expired, operation.Satisfied, operation.Forced).OnlyTimeouts())
	assert.False(t, counts(operation.Expired, operation.Satisfied, operation.Cancelled).OnlyTimeouts())
	assert.False(t, counts(operation.Expired, operation.Forced, operation.Cancelled).OnlyTimeouts())
}

// The end of an operation counts for all its keys, whichever shards they are in.
func TestAnEndCountsForAllKeysOfAnOperation(t *testing.T) {
	p := newManual(t, WithKeyStats(1<<12))
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint(i))
	}
	require.True(t, p.ForceComplete(submit(t, p, time.Hour, keys...)))
	hot := p.Inspect(100, 0).Hot
	require.Len(t, hot, 20)
	for _, k := range hot {
		assert.EqualValues(t, 1, k.Ended[operation.Forced], k.Key)
	}
}

// An expiry of a quiet key is counted although busy keys have displaced the key from the
// list of the busiest.
func TestExpiriesOfAQuietKeyAreCounted(t *testing.T) {
	p := newManual(t, WithKeyStats(4), WithWatcherShards(1))
	p.AdvanceClock(time.Hour)
	submit(t, p, time.Second, "quiet")
	for i := range 100 {
		submit(t, p, time.Hour, fmt.Sprint(i%5))
	}
	p.AdvanceClock(time.Minute)
	in := p.Inspect(10, 0)
	for _, k := range in.Hot {
		assert.NotEqual(t, "quiet", k.Key)
	}
	require.Len(t, in.Expiring, 1)
	assert.Equal(t, "quiet", in.Expiring[0].Key)
	assert.EqualValues(t, 1, in.Expiring[0].Ended[operation.Expired])
	assert.GreaterOrEqual(t, in.Expiring[0].Since, time.Hour)
}

// Each expiry of a key counts once, also while busy keys displace the key from the list of the
// busiest.
func TestRepeatedExpiriesOfAQuietKeyCountOnceEach(t *testing.T) {
	p := newManual(t, WithKeyStats(4), WithWatcherShards(1))
	for n := range 3 {
		submit(t, p, time.Second, "quiet")
		for i := range 100 {
			submit(t, p, time.Hour, fmt.Sprint(i%5))
		}
		p.AdvanceClock(2 * time.Second)
		in := p.Inspect(10, 0)
		for _, k := range in.Hot {
			require.NotEqual(t, "quiet", k.Key)
		}
		require.Len(t, in.Expiring, 1)
		require.EqualValues(t, n+1, in.Expiring[0].Ended[operation.Expired])
	}
}

// Keys that expire once do not displace a key that expires often, however many they are.
func TestRareExpiriesDoNotDisplaceAKeyThatExpiresOften(t *testing.T) {
	p := newManual(t, WithKeyStats(4), WithWatcherShards(1))
	expire := func(key string) {
		submit(t, p, time.Second, key)
		p.AdvanceClock(2 * time.Second)
	}
	for range 20 {
		expire("often")
	}
	for i := range 12 {
		expire(fmt.Sprint(i))
	}
	first := p.Inspect(1, 0).Expiring[0]
	assert.Equal(t, "often", first.Key)
	assert.EqualValues(t, 20, first.Ended[operation.Expired])
}

// A try that CheckAndCompleteAll makes counts for the key, as one of CheckAndComplete does.
func TestTriesOfACheckOfAllKeysCountForEachKey(t *testing.T) {
	p := newManual(t, WithKeyStats(8))
	submit(t, p, time.Hour, "a")
	submit(t, p, time.Hour, "b")
	submit(t, p, time.Hour, "b")
	p.CheckAndCompleteAll()
	hot := p.Inspect(10, 0).Hot
	require.Len(t, hot, 2)
	for _, k := range hot {
		assert.Equal(t, map[string]int64{"a": 1, "b": 2}[k.Key], k.Tries, k.Key)
		assert.Equal(t, k.Tries, k.Wasted, k.Key)
	}
}

func TestInspectPutsTheBusiestFirst(t *testing.T) {
	p := newManual(t, WithKeyStats(1<<12))
	for i := range 10 {
		for range 1 + (i*7)%10 {
			submit(t, p, time.Hour, fmt.Sprint(i))
		}
	}
	hot := p.Inspect(10, 0).Hot
	require.Len(t, hot, 10)
	for i, k := range hot {
		assert.EqualValues(t, 10-i, k.Watched, k.Key)
	}
}

// Watched, Tries and Wasted of an expiring key are not reported once the key has been
// displaced from the list of the busiest: they are not counted since.
func TestAnExpiringKeyHasNoStaleCounts(t *testing.T) {
	p := newManual(t, WithKeyStats(4), WithWatcherShards(1))
	submit(t, p, time.Second, "quiet")
	p.CheckAndComplete("quiet")
	p.AdvanceClock(2 * time.Second)
	k := p.Inspect(10, 0).Expiring[0]
	assert.Equal(t, []int64{1, 1, 1}, []int64{k.Watched, k.Tries, k.Wasted})
	for i := range 100 {
		submit(t, p, time.Hour, fmt.Sprint(i%5))
	}
	k = p.Inspect(10, 0).Expiring[0]
	assert.Equal(t, "quiet", k.Key)
	assert.Equal(t, []int64{0, 0, 0}, []int64{k.Watched, k.Tries, k.Wasted})
	assert.EqualValues(t, 1, k.Ended[operation.Expired])
}

// The end of an operation is no try, and no event that makes its key a hot one.
func TestAnEndIsNotCountedAsATry(t *testing.T) {
	p := newManual(t, WithKeyStats(8))
	submit(t, p, time.Hour, "a", "b")
	assert.Equal(t, 1, p.CancelForKey("a", nil))
	submit(t, p, time.Hour, "b")
	require.NoError(t, p.Close())
	assert.Empty(t, p.Inspect(10, 0).Expiring)
	hot := p.Inspect(10, 0).Hot
	require.Len(t, hot, 2)
	for _, k := range hot {
		assert.Contains(t, "ab", k.Key)
		assert.Zero(t, k.Tries)
	}
}

func TestOnlyTimeoutsBecomesFalseWhenAKeyIsWoken(t *testing.T) {
	p := newManual(t, WithKeyStats(64))
	submit(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	require.True(t, p.Inspect(10, 0).Expiring[0].OnlyTimeouts())
	op := submit(t, p, time.Second, "a")
	op.ready = true
	p.CheckAndComplete("a")
	assert.False(t, p.Inspect(10, 0).Expiring[0].OnlyTimeouts())
}

// A key is not reported as ended only by timeouts if operations of it were satisfied before
// its first expiry.
func TestOnlyTimeoutsRemembersEarlierSatisfiedOperations(t *testing.T) {
	p := newManual(t, WithKeyStats(64))
	op := submit(t, p, time.Second, "a")
	op.ready = true
	require.Equal(t, 1, p.CheckAndComplete("a"))
	submit(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	got := p.Inspect(10, 0).Expiring[0]
	assert.False(t, got.OnlyTimeouts())
	assert.EqualValues(t, 1, got.Ended[operation.Expired])
	assert.EqualValues(t, 1, got.Ended[operation.Satisfied])
	assert.EqualValues(t, 2, got.Watched)
}

func TestInspectWithoutKeyStatsKnowsNoKeys(t *testing.T) {
	p := newManual(t)
	submit(t, p, time.Second, "a", "b")
	in := p.Inspect(10, 10)
	assert.Empty(t, in.Hot)
	assert.Len(t, in.Oldest, 1, "found under both keys, shown once")
	assert.Equal(t, 2, in.Oldest[0].Keys)
	assert.Empty(t, p.Inspect(0, 0).Oldest)
	p = newManual(t, WithHistograms())
	submit(t, p, time.Second, "a")
	assert.Empty(t, p.Inspect(10, 0).Hot)
}
