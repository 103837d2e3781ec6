package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/commitlog"
	"github.com/delayedop/purgatory/examples/broker/wire"
)

// TestAFetchCountsFromTheRegisteredProcessOnly: what another process of the same
// id has says nothing of what the registered one has.
func TestAFetchCountsFromTheRegisteredProcessOnly(t *testing.T) {
	b := newBench(t, 2)
	produce := b.produce()
	req := b.fetchRequest(1)
	req.MaxWaitMillis = 0
	for _, epoch := range []int64{-1, b.silent.epoch - 1, b.silent.epoch + 1} {
		req.ReplicaState.ID, req.ReplicaState.Epoch = 2, epoch
		_, err := b.dial().Do(b.ctx, req)
		require.NoError(t, err)
		require.Equal(t, int64(1), b.produces.Stats().Pending, "epoch %d", epoch)
	}
	b.replicate(1)
	require.NoError(t, b.produced(produce))
}

// TestAPositionIsForgottenWithItsRegistration: also by a leader that hears of a new
// registration and of no change of the in-sync set.
func TestAPositionIsForgottenWithItsRegistration(t *testing.T) {
	p := &partition{broker: 1, config: &Config{MinInsyncReplicas: 2}, memory: newHoldings(1<<20, nil)}
	p.mu.log, p.mu.leaderEpoch, p.mu.epoch = &commitlog.Log{}, -1, -1
	state := kmsg.NewUpdateMetadataRequestTopicPartition()
	state.Leader, state.Replicas, state.ISR = 1, []int32{1, 2}, []int32{1, 2}
	fetch := kmsg.NewFetchRequestTopicPartition()
	end := func() int64 { return p.mu.followers[2].end }
	p.apply(&state, map[int32]int64{2: 76}, time.Now())
	p.fetched(2, 76, &fetch, time.Now())
	require.Zero(t, end())
	p.apply(&state, map[int32]int64{2: 77}, time.Now())
	require.Equal(t, int64(-1), end())
	p.fetched(2, 76, &fetch, time.Now())
	require.Equal(t, int64(-1), end())
	p.fetched(2, 77, &fetch, time.Now())
	require.Zero(t, end())
}

// TestABrokerThatWasReplacedStandsDown: it lost its session, and before it came
// back another process had its id. Whoever waits there is told to look elsewhere.
func TestABrokerThatWasReplacedStandsDown(t *testing.T) {
	b := newBench(t, 2)
	produce := b.produce()
	fetch := b.start(b.dial(), b.fetchRequest(0))
	b.waiting(b.fetches, 1)
	twin, err := wire.Dial(b.ctx, b.controller.Addr(), "twin")
	require.NoError(t, err)
	t.Cleanup(twin.Close)
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID = 3, 1
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Host, listener.Port = "127.0.0.1", uint16(b.silent.server.Addr().Port)
	req.Listeners = append(req.Listeners, listener)
	register := func() error {
		resp, err := twin.Do(b.ctx, req)
		require.NoError(t, err)
		return kerr.ErrorForCode(resp.(*kmsg.BrokerRegistrationResponse).ErrorCode)
	}
	require.ErrorIs(t, register(), kerr.DuplicateBrokerRegistration)
	require.Eventually(t, func() bool {
		if asking := b.asking.Load(); asking != nil {
			asking.Close() // whoever of the two comes first
		}
		return register() == nil
	}, patience, time.Millisecond)
	require.ErrorIs(t, b.produced(produce), kerr.NotLeaderForPartition)
	require.Equal(t, kerr.NotLeaderForPartition.Code, b.fetched(fetch).ErrorCode)
	require.Eventually(t, func() bool { return b.refused.Load() != nil }, patience, time.Millisecond)
	require.ErrorIs(t, *b.refused.Load(), kerr.DuplicateBrokerRegistration)
	require.Zero(t, b.produces.Stats().Pending)
	require.Zero(t, b.fetches.Stats().Pending)
}
