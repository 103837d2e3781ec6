package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// idleCluster has brokers with logs, and nobody who produces.
func idleCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := startCluster(parse(t, "-partitions", "3"), newLedger(), silent, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.stop(context.Background())) })
	return c
}

// answered is a ledger in which one produce was answered.
func answered(t *testing.T) *ledger {
	l := newLedger()
	l.answer(produceResponse{ID: l.open(nil, time.Now()), Code: requestTimedOut}, time.Now())
	require.Empty(t, l.verify(idleCluster(t)))
	return l
}

func TestNothingAnsweredIsBroken(t *testing.T) {
	c, l := idleCluster(t), newLedger()
	assert.Equal(t, []string{"no produce was answered: nothing happened that could show anything"}, l.verify(c))
	l.open(nil, time.Now())
	assert.Len(t, l.verify(c), 2)
}

func TestLedgerFindsWhatIsAnsweredTwiceOrNever(t *testing.T) {
	c, l := idleCluster(t), newLedger()
	start := time.Unix(0, 0)
	once, twice := l.open(nil, start), l.open(nil, start)
	l.open(nil, start)
	l.answer(produceResponse{ID: once, Code: requestTimedOut}, start.Add(time.Second))
	l.answer(produceResponse{ID: twice, Code: none}, start.Add(time.Second))
	assert.Equal(t, []string{"1 produces were never answered"}, l.verify(c))
	l.answer(produceResponse{ID: twice, Code: requestTimedOut}, start.Add(2*time.Second))
	assert.Equal(t, []string{
		"1 produces were never answered",
		"1 produces were answered more than once, the first of them produce 2",
	}, l.verify(c))
	assert.Equal(t, 1, l.tally().open)
	assert.Equal(t, []time.Duration{time.Second}, l.mu.latency[requestTimedOut], "a second answer counts for nothing")
}

func TestVerifyFindsEarlyTimeouts(t *testing.T) {
	c, l := idleCluster(t), answered(t)
	l.expired(time.Millisecond)
	assert.Empty(t, l.verify(c))
	l.expired(-time.Microsecond)
	assert.Equal(t, []string{"a timeout was answered 1µs before its time"}, l.verify(c))
}

func TestVerifyFindsAcknowledgedRecordsThatAreMissing(t *testing.T) {
	c, l := idleCluster(t), newLedger()
	sent := newRecord{Partition: orders0, Value: "a"}
	id := l.open([]newRecord{sent}, time.Now())
	answered := make(chan produceResponse, 1)
	c.brokers[0].produce(produceRequest{id, time.Hour, []newRecord{sent}}, func(r produceResponse) { answered <- r })
	answer := <-answered
	require.Equal(t, produceResponse{ID: id, Code: none, Offsets: []int64{0}}, answer)
	l.answer(answer, time.Now())
	require.NoError(t, c.stop(context.Background()))
	assert.Empty(t, l.verify(c))

	l.mu.acknowledged[0].Value = "b"
	assert.Len(t, l.verify(c), 3, "another value than was acknowledged, on each broker")
	l.mu.acknowledged[0].Value = "a"
	l.mu.acknowledged = append(l.mu.acknowledged, acknowledged{newRecord: sent, offset: 1})
	assert.Equal(t, []string{
		`broker 0 is in sync but lacks 1 acknowledged records, first "a" at orders-0 offset 1`,
		`broker 1 is in sync but lacks 1 acknowledged records, first "a" at orders-0 offset 1`,
		`broker 2 is in sync but lacks 1 acknowledged records, first "a" at orders-0 offset 1`,
	}, l.verify(c))

	delete(c.brokers[0].replicas[0].mu.leadership.insync, 2)
	assert.Len(t, l.verify(c), 2, "a broker that is not in sync owes nothing")
}

func TestPickTakesPartitionsOfOneLeader(t *testing.T) {
	leaders := []int{0, 1, 0, 1, 2}
	for range 100 {
		broker, partitions := pick(leaders)
		assert.ElementsMatch(t, [][]partition{{0, 2}, {1, 3}, {4}}[broker], partitions)
	}
}

func TestOnlyTheLastBrokerIsSlow(t *testing.T) {
	c := &cluster{cfg: parse(t, "-slow-from", "0", "-slow-to", "1h"), start: time.Now()}
	assert.Zero(t, c.holdBack(0))
	assert.Positive(t, c.holdBack(2))
	c.start = c.start.Add(-time.Hour)
	assert.Zero(t, c.holdBack(2), "it is well again")
}
