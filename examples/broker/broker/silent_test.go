package broker

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/broker/batch"
	"github.com/delayedop/purgatory/examples/broker/controller"
	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	silent     *silent
	topic      *topic
}

func newBench(t testing.TB, minInsync int, more ...func(*Config)) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	manual, err := timer.NewManualTimer()
	require.NoError(t, err)
	b := &bench{t: t, ctx: ctx, timer: manual}
	none := func(string) []purgatory.Option { return nil }
	b.controller, err = controller.Start(controller.Config{Addr: "127.0.0.1:0", SessionTimeout: time.Hour, Purgatory: none})
	require.NoError(t, err)
	t.Cleanup(b.controller.Close)
	config := Config{
		ID: 1, Controller: b.controller.Addr(), MaxLag: time.Hour, MinInsyncReplicas: minInsync,
		Purgatory: func(kind string) []purgatory.Option {
			if kind == "produce" || kind == "fetch" {
				return []purgatory.Option{purgatory.WithTimer(manual), purgatory.WithoutReaper()}
			}
			return nil
		},
	}
	for _, set := range more {
		set(&config)
	}
	b.Broker, err = Start(ctx, config)
	require.NoError(t, err)
	t.Cleanup(b.Kill)
	b.silent = newSilent(ctx, t, b.controller.Addr())
	require.NoError(t, b.arrivals.Await(ctx, patience, func() bool { return len(b.current.Load().brokers) == 2 }, anyPicture))
	b.topic = b.createTopic("t", 1, 2)
	require.Equal(t, int32(1), b.topic.partitions[0].Leader)
	return b
}

func (b *bench) createTopic(name string, partitions int32, replicas int16) *topic {
	create := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replicas
	create.Topics = append(create.Topics, rt)
	_, err := b.create(b.ctx, create, patience)
	require.NoError(b.t, err)
	return b.current.Load().topics[name]
}

// silent is the other replica: it registers, takes pictures, and is silent.
type silent struct {
	registered *wire.Client
	epoch      int64
	server     *wire.Server
	gone       sync.Once
}

func newSilent(ctx context.Context, t testing.TB, controller string) *silent {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &silent{}
	s.server = wire.Serve(l, wire.Versions{6: {Min: 7, Max: 7}}, s, wire.Limits{})
	s.registered, err = wire.Dial(ctx, controller, "silent")
	require.NoError(t, err)
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID = 3, 2
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Host, listener.Port = "127.0.0.1", uint16(s.server.Addr().Port)
	req.Listeners = append(req.Listeners, listener)
	resp, err := s.registered.Do(ctx, req)
	require.NoError(t, err)
	s.epoch = resp.(*kmsg.BrokerRegistrationResponse).BrokerEpoch
	t.Cleanup(s.die)
	return s
}

func (s *silent) Handle(_ *wire.Conn, req kmsg.Request, reply func(kmsg.Response)) {
	reply(req.ResponseKind())
}
func (s *silent) Gone(*wire.Conn) {}

func (s *silent) die() {
	s.gone.Do(func() {
		s.registered.Close()
		s.server.Close()
	})
}

func (b *bench) dial() *wire.Client {
	client, err := wire.Dial(b.ctx, b.Addr(), "test")
	require.NoError(b.t, err)
	b.t.Cleanup(client.Close)
	return client
}

// start sends a request and returns where its answer will be.
func (b *bench) start(client *wire.Client, req kmsg.Request) <-chan kmsg.Response {
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
	records := batch.Build(1, []batch.Record{{Value: []byte("v")}})
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
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 16, 60_000, 1, 1<<20
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = offset, 1<<20
	req.Topics = []kmsg.FetchRequestTopic{{TopicID: b.topic.id, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	return req
}

// replicate lets the silent replica say that it has everything below offset.
func (b *bench) replicate(offset int64) {
	b.t.Helper()
	req := b.fetchRequest(offset)
	req.ReplicaState.ID, req.ReplicaState.Epoch = 2, b.silent.epoch
	req.MaxWaitMillis = 0
	_, err := b.dial().Do(b.ctx, req)
	require.NoError(b.t, err)
}

func (b *bench) fetched(answer <-chan kmsg.Response) kmsg.FetchResponseTopicPartition {
	b.t.Helper()
	resp, ok := <-answer
	require.True(b.t, ok, "the connection ended")
	return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
}
