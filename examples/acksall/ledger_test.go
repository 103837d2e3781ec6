package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLedgerFindsWhatIsAnsweredTwiceOrNever(t *testing.T) {
	c := idleCluster(t)
	l := newLedger()
	start := time.Unix(0, 0)
	once := l.open(nil, start)
	twice := l.open(nil, start)
	l.open(nil, start)
	l.answer(produceResponse{ID: once, Code: requestTimedOut}, start.Add(time.Second))
	l.answer(produceResponse{ID: twice, Code: none}, start.Add(time.Second))
	assert.Equal(t, []string{"1 produces were never answered"}, verify(l, c))
	l.answer(produceResponse{ID: twice, Code: requestTimedOut}, start.Add(2*time.Second))
	assert.Equal(t, []string{
		"1 produces were never answered",
		"1 produces were answered more than once, the first of them produce 2",
	}, verify(l, c))
	assert.Equal(t, []time.Duration{time.Second}, l.latency[none].sorted())
	assert.Equal(t, []time.Duration{time.Second}, l.latency[requestTimedOut].sorted(), "a second answer counts for nothing")
}

func TestLedgerSettlesWhenSealedAndNothingIsOpen(t *testing.T) {
	l := newLedger()
	id := l.open(nil, time.Now())
	settled := l.seal()
	select {
	case <-settled:
		t.Fatal("a produce is open")
	default:
	}
	l.answer(produceResponse{ID: id}, time.Now())
	<-settled
	l.answer(produceResponse{ID: id}, time.Now()) // must not settle again
	<-l.seal()
}

func TestVerifyFindsEarlyTimeouts(t *testing.T) {
	c := idleCluster(t)
	c.brokers[1].lateness.add(time.Millisecond)
	assert.Empty(t, verify(newLedger(), c))
	c.brokers[2].lateness.add(-time.Microsecond)
	assert.Equal(t, []string{"a timeout was answered 1µs before its time"}, verify(newLedger(), c))
}

// idleCluster has brokers with logs, and nobody who produces.
func idleCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := startCluster(parse(t, "-partitions", "3"), newConsole(io.Discard), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.stop(context.Background())) })
	return c
}

func TestVerifyFindsAcknowledgedRecordsThatAreMissing(t *testing.T) {
	c := idleCluster(t)
	l := newLedger()
	sent := newRecord{Partition: orders0, Value: "a"}
	id := l.open([]newRecord{sent}, time.Now())
	answered := make(chan produceResponse, 1)
	c.brokers[0].produce(produceRequest{ID: id, Timeout: time.Hour, Records: []newRecord{sent}}, func(r produceResponse) { answered <- r })
	answer := <-answered
	require.Equal(t, produceResponse{ID: id, Code: none, Offsets: []int64{0}}, answer)
	l.answer(answer, time.Now())
	assert.Empty(t, verify(l, c))

	l.mu.acknowledged[0].Value = "b"
	assert.Len(t, verify(l, c), 3, "another value than was acknowledged, on each broker")
	l.mu.acknowledged[0].Value = "a"
	l.mu.acknowledged = append(l.mu.acknowledged, acknowledged{newRecord: sent, offset: 1})
	assert.Equal(t, []string{
		`broker 0 is in sync but lacks 1 acknowledged records, the first of them "a" at orders-0 offset 1`,
		`broker 1 is in sync but lacks 1 acknowledged records, the first of them "a" at orders-0 offset 1`,
		`broker 2 is in sync but lacks 1 acknowledged records, the first of them "a" at orders-0 offset 1`,
	}, verify(l, c))

	require.True(t, c.controller.setInsync(orders0, 0, []int{0, 1}))
	assert.Len(t, verify(l, c), 2, "a broker that is not in sync owes nothing")
}
