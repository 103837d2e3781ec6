package broker

import (
	"io"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// pipeline sends n requests on one connection without reading an answer.
func (b *bench) pipeline(n int, req kmsg.Request) net.Conn {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.Addr())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("pipeline"))
	var frames []byte
	for i := range n {
		frames = append(frames, format.AppendRequest(nil, req, int32(i))...)
	}
	_, err = conn.Write(frames)
	require.NoError(b.t, err)
	return conn
}

// TestAnEndIsSeenAtAnyNumberInFlight: whatever a client has sent before it goes,
// nothing of it waits afterwards.
func TestAnEndIsSeenAtAnyNumberInFlight(t *testing.T) {
	b := newBench(t, 2)
	before := b.Conns() // the controller's
	for _, n := range []int{1, 16, 17, 18, 100, 500} {
		req := b.fetchRequest(0)
		req.MaxWaitMillis = math.MaxInt32
		conn := b.pipeline(n, req)
		b.waiting(b.fetches, int64(n))
		require.NoError(t, conn.Close())
		b.waiting(b.fetches, 0)
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks, produce.TimeoutMillis = 9, -1, math.MaxInt32
	records := batchtest.Build(1, []byte("v"))
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	conn := b.pipeline(100, produce)
	b.waiting(b.produces, 100)
	require.NoError(t, conn.Close())
	b.waiting(b.produces, 0)
	require.Eventually(t, func() bool { return b.Conns() == before }, patience, time.Millisecond)
}

// TestManyThatGoAtOnceLeaveTheBrokerOpen: a thousand connections, one after the
// other, with 18 fetches in flight each, and then a client that can connect.
func TestManyThatGoAtOnceLeaveTheBrokerOpen(t *testing.T) {
	b := newBench(t, 2)
	before := b.Conns()
	req := b.fetchRequest(0)
	req.MaxWaitMillis = math.MaxInt32
	for range 1024 {
		require.NoError(t, b.pipeline(18, req).Close())
	}
	fetch := b.start(b.dial(), req)
	b.waiting(b.fetches, 1)
	require.Eventually(t, func() bool { return b.Conns() == before+1 }, patience, time.Millisecond)
	b.timer.AdvanceClock(b.config.MaxWait)
	require.Zero(t, b.fetched(fetch).ErrorCode)
	require.Zero(t, b.fetches.Stats().Pending)
}

// TestTooManyInFlightEndTheConnection: the broker never stops reading from a
// client that does not read.
func TestTooManyInFlightEndTheConnection(t *testing.T) {
	b := newBench(t, 2)
	before := b.Conns()
	conn := b.pipeline(2000, b.fetchRequest(0))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.Copy(io.Discard, conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "still open")
	b.waiting(b.fetches, 0)
	require.Eventually(t, func() bool { return b.Conns() == before }, patience, time.Millisecond)
}

// TestAWaitHasAMaximum that the broker sets, whatever a client asks for.
func TestAWaitHasAMaximum(t *testing.T) {
	b := newBench(t, 2)
	req := b.fetchRequest(0)
	req.MaxWaitMillis = math.MaxInt32
	fetch := b.start(b.dial(), req)
	b.waiting(b.fetches, 1)
	b.timer.AdvanceClock(b.config.MaxWait)
	require.Zero(t, b.fetched(fetch).ErrorCode)
	require.Equal(t, int64(1), b.fetches.Stats().Expired)
}
