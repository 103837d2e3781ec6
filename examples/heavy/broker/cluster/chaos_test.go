package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// load produces numbered records until it is stopped and remembers which were
// acknowledged.
type load struct {
	acked sync.Map
	count atomic.Int64
	stop  chan struct{}
	done  chan struct{}
}

func startLoad(cl *kgo.Client, topic string) *load {
	l := &load{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for i := 0; ; i++ {
			select {
			case <-l.stop:
				_ = cl.Flush(context.Background())
				return
			case <-time.After(200 * time.Microsecond):
			}
			value := fmt.Sprintf("%08d", i)
			cl.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)}, func(_ *kgo.Record, err error) {
				if err == nil {
					l.acked.Store(value, true)
					l.count.Add(1)
				}
			})
		}
	}()
	return l
}

func (l *load) end() {
	close(l.stop)
	<-l.done
}

// allIn says whether everything that was acknowledged is among what was seen.
func (l *load) allIn(seen map[string]int) bool {
	if int64(len(seen)) < l.count.Load() {
		return false
	}
	all := true
	l.acked.Range(func(value, _ any) bool {
		all = seen[value.(string)] > 0
		return all
	})
	return all
}

// awaitAcked waits until more records are acknowledged than at the call.
func (l *load) awaitAcked(t *testing.T, more int64) {
	t.Helper()
	target := l.count.Load() + more
	require.Eventually(t, func() bool { return l.count.Load() >= target }, patience, time.Millisecond)
}

// impatient has a client give up a frozen broker soon.
var impatient = kgo.RequestTimeoutOverhead(time.Second)

// TestNothingAcknowledgedIsLost takes brokers down or freezes them at random moments,
// for longer and shorter than their session lasts, and brings them back, while a
// producer and a consumer group run on.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	config := testConfig()
	config.SessionTimeout = time.Second
	c := start(t, config)
	producer := client(t, c, impatient)
	create(t, producer, "chaos", 6, 3)
	group := client(t, c, impatient, kgo.ConsumeTopics("chaos"), kgo.ConsumerGroup("chaos"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(2*time.Second), kgo.HeartbeatInterval(100*time.Millisecond))
	l := startLoad(producer, "chaos")
	l.awaitAcked(t, 100)
	type way struct {
		name       string
		away, back func(int) error
	}
	ways := []way{
		{"stop", c.Stop, c.Restart},
		{"kill", c.Kill, c.Restart},
		{"freeze", c.Freeze, c.Thaw},
		{"freeze and kill", c.Freeze, func(id int) error {
			if err := c.Kill(id); err != nil {
				return err
			}
			return c.Restart(id)
		}},
	}
	for round := range 10 {
		id, w := 1+random.IntN(3), ways[random.IntN(len(ways))]
		pause := time.Duration(random.IntN(2000)) * time.Millisecond
		t.Logf("round %d: %s broker %d for %v, %d acknowledged", round, w.name, id, pause, l.count.Load())
		require.NoError(t, w.away(id))
		time.Sleep(pause)
		if random.IntN(2) == 0 {
			l.awaitAcked(t, 50) // the others go on without it
		}
		require.NoError(t, w.back(id))
		if random.IntN(2) == 0 {
			awaitInSync(t, producer, "chaos")
		}
	}
	l.end()
	requireAllOnce(t, c, l, group, "chaos")
}

// requireAllOnce reads a topic through a group that has been reading it, and afresh:
// nothing that was acknowledged is lost, and nothing is there twice.
func requireAllOnce(t *testing.T, c *Cluster, l *load, group *kgo.Client, topic string) {
	t.Helper()
	consumeUntil(t, group, l.allIn) // were one lost, these would not end
	fresh := client(t, c, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for value, times := range consumeUntil(t, fresh, l.allIn) {
		require.Equal(t, 1, times, "an idempotent producer's %s is in the log more than once", value)
	}
	require.Zero(t, total(c, "produce").Panics)
	t.Logf("%d acknowledged: none lost, none twice", l.count.Load())
	group.Close()
	fresh.Close()
	requireNothingWaits(t, c)
}

// TestAFrozenLeaderAcknowledgesNothing that the one after it does not have: what
// it finds in its sockets when it goes on it appends, in vain.
func TestAFrozenLeaderAcknowledgesNothing(t *testing.T) {
	config := testConfig()
	config.SessionTimeout = time.Second
	config.Broker.MinInsyncReplicas = 1 // so that it is not too few that it falls back on
	c := start(t, config)
	cl := client(t, c)
	create(t, cl, "frozen", 1, 3)
	produce(t, cl, "frozen", 0, 10)
	awaitLeader(t, cl, "frozen", 1)
	r := dial(t, c)
	require.NoError(t, c.Freeze(1))
	req := produceRequest("frozen", recordBatch())
	r.send(0, req.Version, req.IsFlexible(), req.AppendTo(nil))
	elsewhere := client(t, c, kgo.SeedBrokers(c.Addrs()[1:]...), impatient)
	awaitLeader(t, elsewhere, "frozen", 2)
	produce(t, elsewhere, "frozen", 10, 20)
	require.NoError(t, c.Thaw(1))
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	require.NoError(t, resp.ReadFrom(r.receive()[1:]))
	require.Equal(t, kerr.NotLeaderForPartition.Code, resp.Topics[0].Partitions[0].ErrorCode)
	awaitInSync(t, cl, "frozen")
	require.NoError(t, c.Kill(2))
	awaitLeader(t, cl, "frozen", 1) // which has what the other had, and nothing else
	produce(t, cl, "frozen", 20, 30)
	got := consume(t, client(t, c, fromStart("frozen")...), 30)
	require.Len(t, got, 30)
	require.NotContains(t, got, "value")
}

// awaitInSync waits until every partition of a topic has all three replicas in sync.
func awaitInSync(t *testing.T, cl *kgo.Client, topic string) {
	t.Helper()
	require.Eventually(t, func() bool {
		partitions := describe(cl, topic)
		for _, p := range partitions {
			if len(p.ISR) < 3 || p.Leader < 0 {
				return false
			}
		}
		return len(partitions) > 0
	}, patience, 10*time.Millisecond)
}
