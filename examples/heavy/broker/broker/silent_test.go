package broker

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/examples/heavy/broker/group"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

const patience = 30 * time.Second

// bench is a broker that leads one partition whose other replica fetches only
// when the test says so. The time of its produces and fetches, too, moves only
// when the test says so.
type bench struct {
	*Broker
	t          testing.TB
	ctx        context.Context
	timer      *timer.ManualTimer
	controller *controller.Controller
	silent     *controller.Session // of the other replica, which is never heard of but through replicate
}

func newBench(t testing.TB, minInsync int, more ...func(*Config)) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	manual, err := timer.NewManualTimer()
	require.NoError(t, err)
	b := &bench{t: t, ctx: ctx, timer: manual}
	b.controller, err = controller.New(time.Hour, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(b.controller.Close)
	config := Config{
		ID: 1, Addr: "127.0.0.1:0", Logs: make(Logs), Controller: b.controller, MaxLag: time.Hour, MinInsyncReplicas: minInsync,
		Purgatory: []purgatory.Option{purgatory.WithTimer(manual), purgatory.WithoutReaper()},
	}
	config.Groups, err = group.New(0, 0)
	require.NoError(t, err)
	t.Cleanup(config.Groups.Close)
	for _, set := range more {
		set(&config)
	}
	b.Broker, err = Start(config)
	require.NoError(t, err)
	t.Cleanup(b.Kill)
	b.silent, err = b.controller.Register(2, netip.MustParseAddrPort("127.0.0.1:1"))
	require.NoError(t, err)
	require.Equal(t, int32(1), b.newTopic("t", 1, 2)[0].Leader)
	return b
}

func (b *bench) newTopic(name string, partitions int32, replicas int16) controller.Topic {
	b.t.Helper()
	t, err := b.controller.Create(name, partitions, replicas)
	require.NoError(b.t, err)
	require.Eventually(b.t, func() bool { return b.current.Load().Topics[name] != nil }, patience, time.Millisecond)
	return t
}

// connected is a connection for one request at a time.
type connected struct {
	net.Conn
	r *bufio.Reader
}

func (b *bench) dial() *connected {
	conn, err := net.Dial("tcp", b.Addr())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	return &connected{conn, bufio.NewReader(conn)}
}

// Do sends a request and reads its answer.
func (c *connected) Do(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.r, frame); err != nil {
		return nil, err
	}
	header := 4
	resp := req.ResponseKind()
	if resp.IsFlexible() {
		header++
	}
	return resp, resp.ReadFrom(frame[header:])
}

// start sends a request and returns where its answer will be.
func (b *bench) start(client *connected, req kmsg.Request) <-chan kmsg.Response {
	answer := make(chan kmsg.Response, 1)
	go func() {
		defer close(answer)
		if resp, err := client.Do(b.ctx, req); err == nil {
			answer <- resp
		}
	}()
	return answer
}

// waiting waits until a purgatory has n operations. One is counted before its
// timeout is scheduled, and a clock that passes the deadline in between is not
// moved again: so it waits until the timer has them, too.
func (b *bench) waiting(in *waits, n int64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return in.Stats().Pending == n && int64(b.timer.Pending()) == b.produces.Stats().Pending+b.fetches.Stats().Pending
	}, patience, time.Millisecond)
}

// produce starts a produce with acks=all and a minute's timeout, and returns
// when it waits.
func (b *bench) produce() <-chan kmsg.Response {
	b.t.Helper()
	before := b.produces.Stats().Pending
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 60_000
	records := batchtest.Build(1, []byte("v"))
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	answer := b.start(b.dial(), req)
	b.waiting(b.produces, before+1)
	return answer
}

func (b *bench) produced(answer <-chan kmsg.Response) error {
	b.t.Helper()
	resp, ok := <-answer
	require.True(b.t, ok, "the connection ended")
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// fetchRequest fetches from offset and is ready to wait for a minute.
func (b *bench) fetchRequest(offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, 60_000, 1, 1<<20
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = offset, 1<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	return req
}

// replicate lets the silent replica say that it has everything below offset.
func (b *bench) replicate(offset int64) {
	b.t.Helper()
	req := b.fetchRequest(offset)
	req.ReplicaID, req.MaxWaitMillis = 2, 0
	_, err := b.dial().Do(b.ctx, req)
	require.NoError(b.t, err)
}

func (b *bench) fetched(answer <-chan kmsg.Response) kmsg.FetchResponseTopicPartition {
	b.t.Helper()
	resp, ok := <-answer
	require.True(b.t, ok, "the connection ended")
	return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
}
