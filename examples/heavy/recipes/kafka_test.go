package recipes

import (
	"context"
	"fmt"
	"net"
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
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// kafka is brokers in this process that speak Kafka's protocol, and a producer.
type kafka struct {
	t        *testing.T
	dir      string
	ports    []int // a broker for each partition, which leads it
	cluster  *kfake.Cluster
	accepted conns
	producer *kgo.Client
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
	k := &kafka{t: t, dir: t.TempDir()}
	for range partitions {
		address, err := net.ResolveTCPAddr("tcp", signalstest.FreeAddress(t))
		require.NoError(t, err)
		k.ports = append(k.ports, address.Port)
	}
	k.start()
	t.Cleanup(func() { k.cluster.Close() })
	var err error
	k.producer, err = kgo.NewClient(append(k.as("admin"), kgo.DefaultProduceTopic("orders"), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(t, err)
	t.Cleanup(k.producer.Close)
	k.allow(true)
	return k
}

func (k *kafka) start() {
	partitions := len(k.ports)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(partitions), kfake.Ports(k.ports...), kfake.DataDir(k.dir), kfake.SeedTopics(int32(partitions), "orders"),
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "source", "source"),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return cuttable{l, &k.accepted}, err
		}))
	require.NoError(k.t, err)
	for p := range int32(partitions) {
		require.NoError(k.t, cluster.MoveTopicPartition("orders", p, p))
	}
	k.cluster = cluster
}

// as returns the options of a client of a user.
func (k *kafka) as(user string) (opts []kgo.Opt) {
	return []kgo.Opt{kgo.SeedBrokers(k.cluster.ListenAddrs()...), kgo.SASL(plain.Auth{User: user, Pass: user}.AsMechanism())}
}

// allow gives the user source the right to read the orders, or takes it away.
func (k *kafka) allow(yes bool) {
	k.t.Helper()
	c, err := kgo.NewClient(k.as("admin")...)
	require.NoError(k.t, err)
	defer c.Close()
	rights := kadm.NewACLs().Allow("User:source").AllowHosts("*").Topics("orders").ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpRead, kadm.OpDescribe)
	if yes {
		_, err = kadm.NewClient(c).CreateACLs(k.t.Context(), rights)
	} else {
		_, err = kadm.NewClient(c).DeleteACLs(k.t.Context(), rights)
	}
	require.NoError(k.t, err)
}

// produce produces to the partitions in turn, by the last digit of the key.
func (k *kafka) produce(ctx context.Context, key string) (hint, error) {
	r := k.producer.ProduceSync(ctx, &kgo.Record{Key: []byte(key), Partition: int32(key[len(key)-1]) % int32(len(k.ports))})
	if err := r.FirstErr(); err != nil {
		return hint{}, err
	}
	return hint{key, r[0].Record.Offset}, nil
}

func TestConformanceOfATopic(t *testing.T) {
	t.Parallel()
	signalstest.Run(t, func(t *testing.T) signalstest.Engine[string] {
		k := startKafka(t, 3)
		var state sync.Map
		to := func(partition int32) func(context.Context, string, int64) error {
			return func(ctx context.Context, key string, value int64) error {
				state.Store(key, value)
				return k.producer.ProduceSync(ctx, &kgo.Record{Key: []byte(key), Partition: partition}).FirstErr()
			}
		}
		return signalstest.Engine[string]{
			Source: func() signals.Source[string] { return topic("orders", k.as("source")...) },
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
			Resumes:   true,
			Stop:      func() { k.cluster.Close() },
			Start:     k.start,
			Revoke:    func() { k.allow(false) },
			Restore:   func() { k.allow(true) },
			Cuts:      8,
			Elsewhere: []func(context.Context, string, int64) error{to(0), to(1), to(2)},
		}
	})
}

func TestATopicIsHeardFromItsEnd(t *testing.T) {
	t.Parallel()
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
	go func() { ended <- topic("orders", k.as("source")...).Run(ctx, hints) }()
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
	t.Parallel()
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
		go func() { ended <- topic("orders", k.as("source")...).Run(within, hints) }()
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
	t.Parallel()
	k := startKafka(t, 1)
	hints, ended := make(sink), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	source := topic("orders", k.as("source")...)
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

var _ = topic("payments", kgo.SeedBrokers("")) // the recipe is for any topic
