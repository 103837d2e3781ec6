package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestAProduceIsLookedAtWhenItsPositionIsReached: three wait in one log, and
// each is looked at once, when the follower has come far enough for it.
func TestAProduceIsLookedAtWhenItsPositionIsReached(t *testing.T) {
	b := newBench(t, 2)
	first, second, third := b.produce(), b.produce(), b.produce()
	b.replicate(1)
	require.NoError(t, b.produced(first))
	require.Equal(t, int64(1), b.produces.Stats().Checks)
	b.replicate(3)
	require.NoError(t, b.produced(second))
	require.NoError(t, b.produced(third))
	stats := b.produces.Stats()
	require.Equal(t, int64(3), stats.Checks)
	require.Zero(t, stats.WastedChecks)
	require.Equal(t, int64(3), stats.Satisfied)
	require.Zero(t, stats.Pending)
}

func TestAProduceThatIsNotReplicatedInTime(t *testing.T) {
	b := newBench(t, 2)
	answer := b.produce()
	b.timer.AdvanceClock(59 * time.Second)
	require.Equal(t, int64(1), b.produces.Stats().Pending)
	b.timer.AdvanceClock(time.Second)
	require.ErrorIs(t, b.produced(answer), kerr.RequestTimedOut)
	require.Equal(t, int64(1), b.produces.Stats().Expired)
}

// TestADeadFollowerHoldsNobodyUp: the wait ends with the change of the in-sync
// set, not with its timeout, which on this clock never comes.
func TestADeadFollowerHoldsNobodyUp(t *testing.T) {
	for minInsync, want := range map[int]error{1: nil, 2: kerr.NotEnoughReplicasAfterAppend} {
		b := newBench(t, minInsync)
		answer := b.produce()
		b.silent.Leave()
		require.Equal(t, want, b.produced(answer))
		require.Equal(t, int64(1), b.produces.Stats().Satisfied)
	}
}

// TestSteppingDownAnswersAtOnce: the broker loses its session, hears that the
// other replica leads now, and says so to everybody who waits.
func TestSteppingDownAnswersAtOnce(t *testing.T) {
	b := newBench(t, 2)
	produce := b.produce()
	fetch := b.start(b.dial(), b.fetchRequest(0))
	b.waiting(b.fetches, 1)
	b.session.Load().Leave()
	require.ErrorIs(t, b.produced(produce), kerr.NotLeaderForPartition)
	part := b.fetched(fetch)
	require.Equal(t, kerr.NotLeaderForPartition.Code, part.ErrorCode)
	require.Equal(t, int64(1), b.produces.Stats().Satisfied)
	require.Equal(t, int64(1), b.fetches.Stats().Cancelled)
}

func TestStoppingAnswersAtOnce(t *testing.T) {
	b := newBench(t, 2)
	produce := b.produce()
	fetch := b.start(b.dial(), b.fetchRequest(0))
	b.waiting(b.fetches, 1)
	b.Stop()
	require.ErrorIs(t, b.produced(produce), kerr.NotLeaderForPartition)
	require.Equal(t, kerr.NotLeaderForPartition.Code, b.fetched(fetch).ErrorCode)
	require.Zero(t, b.produces.Stats().Expired)
	require.Zero(t, b.fetches.Stats().Expired)
}

func TestAVanishedClientLeavesNothing(t *testing.T) {
	b := newBench(t, 2)
	client := b.dial()
	fetch := b.start(client, b.fetchRequest(0))
	b.waiting(b.fetches, 1)
	client.Close()
	b.waiting(b.fetches, 0)
	_, answered := <-fetch
	require.False(t, answered)
	stats := b.fetches.Stats()
	require.Equal(t, int64(1), stats.Cancelled)
	require.Zero(t, stats.Keys)
}

// TestAFetchWaitsForWhatItMaySee: a record that is appended is not yet one that
// a consumer may read. It is looked at once, when it is.
func TestAFetchWaitsForWhatItMaySee(t *testing.T) {
	b := newBench(t, 2)
	fetch := b.start(b.dial(), b.fetchRequest(0))
	b.waiting(b.fetches, 1)
	produce := b.produce()
	require.Equal(t, int64(1), b.fetches.Stats().Pending)
	b.replicate(1)
	require.NoError(t, b.produced(produce))
	part := b.fetched(fetch)
	require.NotEmpty(t, part.RecordBatches)
	require.Equal(t, int64(1), part.HighWatermark)
	stats := b.fetches.Stats()
	require.Equal(t, int64(1), stats.Checks)
	require.Zero(t, stats.WastedChecks)
}

func TestAFetchThatGetsNothing(t *testing.T) {
	b := newBench(t, 2)
	fetch := b.start(b.dial(), b.fetchRequest(0))
	b.waiting(b.fetches, 1)
	b.timer.AdvanceClock(time.Minute)
	part := b.fetched(fetch)
	require.Zero(t, part.ErrorCode)
	require.Empty(t, part.RecordBatches)
	require.Equal(t, int64(1), b.fetches.Stats().Expired)
	require.Zero(t, b.fetches.Stats().Checks)
}

// TestAFollowersFetchWaitsForTheEndOfTheLog, not for the high watermark, which
// it is what moves.
func TestAFollowersFetchWaitsForTheEndOfTheLog(t *testing.T) {
	b := newBench(t, 2)
	req := b.fetchRequest(0)
	req.ReplicaID = 2
	fetch := b.start(b.dial(), req)
	b.waiting(b.fetches, 1)
	b.produce()
	part := b.fetched(fetch)
	require.NotEmpty(t, part.RecordBatches)
	require.Zero(t, part.HighWatermark)
}
