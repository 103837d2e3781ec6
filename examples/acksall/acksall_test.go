package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// workbench is a purgatory on a clock moved by hand, with one partition's replicas and the answers that were given.
type workbench struct {
	*trio
	produces *partitionPurgatory
	answers  []produceResponse
	late     []time.Duration
}

func newWorkbench(t *testing.T) *workbench {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[partition]("produce", purgatory.WithTimer(clock), purgatory.WithoutReaper())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return &workbench{trio: newTrio(t), produces: p}
}

func (w *workbench) produce(id int64, timeout time.Duration) {
	w.t.Helper()
	at := w.append("v")
	d := &delayedProduce{
		id:       id,
		deadline: time.Now().Add(timeout),
		waiting:  []appended{at},
		offsets:  []int64{at.offset},
		answer:   func(r produceResponse) { w.answers = append(w.answers, r) },
		late:     func(by time.Duration) { w.late = append(w.late, by) },
	}
	completed, err := w.produces.TryCompleteElseWatch(d, timeout, orders0)
	require.NoError(w.t, err)
	require.False(w.t, completed)
}

func TestProduceIsSatisfiedByTheLastFollower(t *testing.T) {
	w := newWorkbench(t)
	w.produce(1, time.Second)
	w.fetch(1)
	w.fetch(1)
	assert.Zero(t, w.produces.CheckAndComplete(orders0))
	w.fetch(2)
	w.fetch(2)
	assert.Equal(t, 1, w.produces.CheckAndComplete(orders0))
	assert.Equal(t, []produceResponse{{ID: 1, Code: none, Offsets: []int64{0}}}, w.answers)
	assert.Empty(t, w.late)
}

func TestProduceTimesOutOnceAndNotEarly(t *testing.T) {
	w := newWorkbench(t)
	w.produce(1, time.Second)
	w.produces.AdvanceClock(time.Second - 1)
	assert.Empty(t, w.answers)
	w.produces.AdvanceClock(2 * time.Millisecond)
	assert.Equal(t, []produceResponse{{ID: 1, Code: requestTimedOut}}, w.answers)
	assert.Len(t, w.late, 1)
	w.fetch(1)
	w.fetch(1)
	w.fetch(2)
	w.fetch(2)
	assert.Zero(t, w.produces.CheckAndComplete(orders0), "replicated after all, but answered already")
	assert.Len(t, w.answers, 1)
}

func TestProduceIsCancelledWhenTheLeaderStepsDown(t *testing.T) {
	w := newWorkbench(t)
	w.produce(1, time.Second)
	w.produce(2, time.Second)
	w.stepDown()
	assert.Equal(t, 2, w.produces.CancelForKey(orders0, errNotLeader))
	assert.Equal(t, []produceResponse{{ID: 1, Code: notLeader}, {ID: 2, Code: notLeader}}, w.answers)
}

// The leader steps down after the append and before the produce is watched: cancelling came too early to find it, but its own
// check sees to it.
func TestProduceRegisteredAfterStepDownDoesNotWait(t *testing.T) {
	w := newWorkbench(t)
	at := w.append("v")
	w.stepDown()
	w.produces.CancelForKey(orders0, errNotLeader)
	var code code
	d := &delayedProduce{waiting: []appended{at}, answer: func(r produceResponse) { code = r.Code }}
	completed, err := w.produces.TryCompleteElseWatch(d, time.Hour, orders0)
	require.NoError(t, err)
	assert.True(t, completed)
	assert.Equal(t, notLeader, code)
}

func TestProduceIsAnsweredWhenTheBrokerCloses(t *testing.T) {
	w := newWorkbench(t)
	w.produce(1, time.Hour)
	require.NoError(t, w.produces.Close())
	assert.Equal(t, []produceResponse{{ID: 1, Code: shuttingDown}}, w.answers)
}

// One partition of two is replicated: that is crossed off for good, and not looked at again.
func TestProduceCrossesOffPartitions(t *testing.T) {
	first, second := newTrio(t), newTrio(t)
	d := &delayedProduce{waiting: []appended{first.append("a"), second.append("a")}}
	assert.False(t, d.TryComplete())
	assert.Len(t, d.waiting, 2)
	for range 2 {
		first.fetch(1)
		first.fetch(2)
	}
	assert.False(t, d.TryComplete())
	require.Len(t, d.waiting, 1)
	assert.Same(t, second.replicas[0], d.waiting[0].replica)
	second.stepDown()
	assert.True(t, d.TryComplete())
	assert.Equal(t, notLeader, d.code)
}

// Of the produces that wait in one log, a fetch has only those looked at that it is enough for.
func TestProducesFurtherUpAreNotLookedAt(t *testing.T) {
	s := newTrio(t)
	b, err := newBroker(0, []*replica{s.leader()}, time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.stop(context.Background())) })
	answers := 0
	for id := range int64(10) {
		r := produceRequest{ID: id, Timeout: time.Hour, Records: []newRecord{{Partition: orders0, Value: "v"}}}
		b.produce(r, func(r produceResponse) {
			assert.Equal(t, none, r.Code)
			answers++
		})
	}
	for has := range int64(11) {
		for follower := 1; follower <= 2; follower++ {
			b.fetch(t.Context(), fetchRequest{Follower: follower, Partition: orders0, Offset: has})
		}
		assert.Equal(t, int(has), answers)
	}
	stats := b.produces.Stats()
	assert.Equal(t, int64(10), stats.Checks)
	assert.Zero(t, stats.WastedChecks)
	assert.Zero(t, stats.Pending)
}
