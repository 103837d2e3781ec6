package recipes

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// hint is what a sink was told: a change, or with an empty key, a gap.
type hint struct {
	key      string
	position int64
}

// sink collects what it is told.
type sink chan hint

func (s sink) Changed(key string, position int64) { s <- hint{key, position} }
func (s sink) Missed(error)                       { s <- hint{} }

func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		require.FailNow(t, "nothing came within a minute")
	}
	return v
}

// conns are connections that a test can cut. It is safe for concurrent use.
type conns struct {
	mu  sync.Mutex
	all []net.Conn
}

func (c *conns) add(conn net.Conn, err error) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.all = append(c.all, conn)
	}
	return conn, err
}

func (c *conns) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		conn.Close()
	}
	c.all = nil
}

func (c *conns) dial(ctx context.Context, addr string) (net.Conn, error) {
	return c.add(new(net.Dialer).DialContext(ctx, "tcp", addr))
}

// conforms runs the checks of signalstest but one: the clients of etcd and Kafka connect
// again by themselves, and go on where they were, so that a source need not say Missed
// after a cut.
func conforms(t *testing.T, open func(t *testing.T) signalstest.Engine[string]) {
	for _, c := range signalstest.Checks[string]() {
		if c.Name == "no hint is lost that comes after Missed, at a reconnect" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			e := open(t)
			if why := c.Skip(e); why != "" {
				t.Skip(why)
			}
			require.NoError(t, c.Run(t.Context(), e))
		})
	}
}

const orders = "orders/" // the keys of the tests begin with it

func orderKey(i int) string { return fmt.Sprint(orders, i) }

// startEtcd returns the address of an etcd server in this process.
func startEtcd(t *testing.T) string {
	t.Helper()
	loopback := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.LogLevel = t.TempDir(), true, "fatal"
	c.TickMs, c.ElectionMs = 10, 100
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = loopback, loopback, loopback, loopback
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		require.FailNow(t, "etcd is not ready after a minute")
	}
	return e.Clients[0].Addr().String()
}

func etcdClient(t *testing.T, addr string, through *conns) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + addr}, DialTimeout: time.Minute,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(through.dial),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: time.Second}),
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestConformanceOfAWatch(t *testing.T) {
	addr := startEtcd(t)
	conforms(t, func(t *testing.T) signalstest.Engine[string] {
		var hearing conns
		client, others := etcdClient(t, addr, &hearing), etcdClient(t, addr, new(conns))
		source := watch(client, orders)
		// The client keeps one stream for all its watches. It does not end the stream if the
		// last watch ends while it connects again, so the stream is made to be the test's.
		client.Watch(clientv3.WithRequireLeader(t.Context()), "the stream")
		_, err := others.Delete(t.Context(), orders, clientv3.WithPrefix())
		require.NoError(t, err)
		return signalstest.Engine[string]{
			Source: func() signals.Source[string] { return source },
			Key:    orderKey,
			Write: func(ctx context.Context, key string, value int64) error {
				_, err := others.Put(ctx, key, fmt.Sprint(value))
				return err
			},
			Read: func(ctx context.Context, key string) (value int64, err error) {
				r, err := others.Get(ctx, key)
				if err != nil || len(r.Kvs) == 0 {
					return 0, err
				}
				_, err = fmt.Sscan(string(r.Kvs[0].Value), &value)
				return value, err
			},
			Cut: hearing.cut,
		}
	})
}

func TestAWatchResumesAndBeginsAnewAfterACompaction(t *testing.T) {
	c := etcdClient(t, startEtcd(t), new(conns))
	put := func(key string) hint {
		r, err := c.Put(t.Context(), key, "")
		require.NoError(t, err)
		return hint{key, r.Header.Revision}
	}
	source, hints, ended := watch(c, orders), make(sink, 10), make(chan error, 1)
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- source.Run(ctx, hints) }()
		return func() { cancel(); assert.ErrorIs(t, receive(t, ended), context.Canceled) }
	}
	stop := run()
	assert.Equal(t, hint{}, receive(t, hints))
	assert.Equal(t, put("orders/1"), receive(t, hints))
	stop()

	missed := []hint{put("orders/2"), put("orders/3")} // nobody listens
	stop = run()
	assert.Equal(t, hint{}, receive(t, hints))
	assert.Equal(t, missed[0], receive(t, hints))
	assert.Equal(t, missed[1], receive(t, hints))
	stop()

	put("orders/4")
	_, err := c.Compact(t.Context(), put("orders/5").position)
	require.NoError(t, err)
	run()
	assert.ErrorIs(t, receive(t, ended), rpctypes.ErrCompacted)
	for len(hints) > 0 {
		assert.Equal(t, hint{}, receive(t, hints))
	}
	stop = run()
	assert.Equal(t, hint{}, receive(t, hints))
	assert.Equal(t, put("orders/6"), receive(t, hints))
	stop()
	assert.Empty(t, hints)
}

// kafka is a broker in this process that speaks Kafka's protocol, and a producer.
type kafka struct {
	t         *testing.T
	cluster   *kfake.Cluster
	addresses []string
	accepted  conns
	producer  *kgo.Client
}

// cuttable is a listener whose connections can be cut.
type cuttable struct {
	net.Listener
	conns *conns
}

func (c cuttable) Accept() (net.Conn, error) { return c.conns.add(c.Listener.Accept()) }

// startKafka starts a broker for each partition, which leads it.
func startKafka(t *testing.T, partitions int) *kafka {
	t.Helper()
	k := &kafka{t: t}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(partitions), kfake.SeedTopics(int32(partitions), "orders"),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return cuttable{l, &k.accepted}, err
		}))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	for p := range int32(partitions) {
		require.NoError(t, cluster.MoveTopicPartition("orders", p, p))
	}
	k.cluster, k.addresses = cluster, cluster.ListenAddrs()
	k.producer, err = kgo.NewClient(kgo.SeedBrokers(k.addresses...), kgo.DefaultProduceTopic("orders"), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(k.producer.Close)
	return k
}

// produce produces to the partitions in turn, by the last digit of the key.
func (k *kafka) produce(ctx context.Context, key string) (hint, error) {
	r := k.producer.ProduceSync(ctx, &kgo.Record{Key: []byte(key), Partition: int32(key[len(key)-1]) % int32(len(k.addresses))})
	if err := r.FirstErr(); err != nil {
		return hint{}, err
	}
	return hint{key, r[0].Record.Offset}, nil
}

func TestConformanceOfATopic(t *testing.T) {
	conforms(t, func(t *testing.T) signalstest.Engine[string] {
		k := startKafka(t, 3)
		var state sync.Map
		to := func(partition int32) func(context.Context, string, int64) error {
			return func(ctx context.Context, key string, value int64) error {
				state.Store(key, value)
				return k.producer.ProduceSync(ctx, &kgo.Record{Key: []byte(key), Partition: partition}).FirstErr()
			}
		}
		return signalstest.Engine[string]{
			Source: func() signals.Source[string] { return topic("orders", k.addresses...) },
			Key:    orderKey,
			Write: func(ctx context.Context, key string, value int64) error {
				state.Store(key, value)
				_, err := k.produce(ctx, key)
				return err
			},
			Read: func(_ context.Context, key string) (int64, error) {
				value, _ := state.Load(key)
				n, _ := value.(int64)
				return n, nil
			},
			Cut:       k.accepted.cut,
			Cuts:      8,
			Elsewhere: []func(context.Context, string, int64) error{to(0), to(1), to(2)},
		}
	})
}

func TestATopicIsHeardFromItsEnd(t *testing.T) {
	k := startKafka(t, 3)
	produce := func(key string) hint {
		h, err := k.produce(t.Context(), key)
		require.NoError(t, err)
		return h
	}
	for _, key := range []string{"before 0", "before 1", "before 2"} {
		produce(key)
	}
	hints, ended := make(sink, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- topic("orders", k.addresses...).Run(ctx, hints) }()
	assert.Equal(t, hint{}, receive(t, hints), "Missed comes first, without a record")
	for _, key := range []string{"a 0", "a 1", "a 2"} {
		want := produce(key)
		assert.Equal(t, want, receive(t, hints))
	}
	cancel()
	assert.ErrorIs(t, receive(t, ended), context.Canceled)
}

// A broker is slow to say where its partition ends, while the other partitions have records all the time. What is produced to
// its partition as soon as the source has said Missed is heard.
func TestASlowPartitionLosesNothing(t *testing.T) {
	k := startKafka(t, 3)
	slow := func(kmsg.Request) (kmsg.Response, error, bool) {
		if k.cluster.CurrentNode() == 1 {
			k.cluster.SleepControl(func() { time.Sleep(300 * time.Millisecond) })
		}
		return nil, nil, false
	}
	k.cluster.ControlKey(int16(kmsg.ListOffsets), slow)
	ctx, cancel := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		for ctx.Err() == nil {
			_, _ = k.produce(ctx, "heartbeat 0")
			time.Sleep(5 * time.Millisecond)
		}
	})
	for round := range 3 {
		hints, ended := make(sink, 100_000), make(chan error, 1)
		within, stop := context.WithCancel(ctx)
		go func() { ended <- topic("orders", k.addresses...).Run(within, hints) }()
		assert.Equal(t, hint{}, receive(t, hints))
		want, err := k.produce(ctx, fmt.Sprint("round ", round, " partition ", int('1')%3))
		require.NoError(t, err)
		for after := 0; ; { // heartbeats since the record was acknowledged
			h := receive(t, hints)
			if h == want {
				break
			}
			require.Equal(t, "heartbeat 0", h.key)
			after++
			require.Less(t, after, 2000, "ten seconds of heartbeats, and not the record")
		}
		stop()
		_ = receive(t, ended)
	}
	cancel()
	beating.Wait()
}

// The consumer is slow, and retention deletes records that it has not fetched. It is told
// of neither them nor their end, so that the source has to begin anew.
func TestATopicBeginsAnewWhenRecordsWereDeleted(t *testing.T) {
	k := startKafka(t, 1)
	hints, ended := make(sink), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	source := topic("orders", k.addresses...)
	go func() { ended <- source.Run(ctx, hints) }()
	assert.Equal(t, hint{}, receive(t, hints))
	_, err := k.produce(t.Context(), "first")
	require.NoError(t, err)
	receive(t, hints) // the client has fetched

	var last hint
	for range 3 { // what the client has fetched ahead, and what it has not
		for range 100 {
			last, err = k.produce(t.Context(), "deleted")
			require.NoError(t, err)
		}
	}
	_, err = kadm.NewClient(k.producer).DeleteRecords(t.Context(), kadm.Offsets{"orders": {0: {Topic: "orders", Partition: 0, At: last.position}}})
	require.NoError(t, err)
	for running := true; running; {
		select {
		case h := <-hints:
			require.LessOrEqual(t, h.position, last.position, "the source goes on as if nothing were missing")
		case err = <-ended:
			running = false
		case <-time.After(time.Minute):
			require.FailNow(t, "neither a hint nor an end within a minute")
		}
	}
	assert.ErrorIs(t, err, kerr.OffsetOutOfRange)
}

var _ = topic("payments") // the recipe is for any topic
