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
	"github.com/twmb/franz-go/pkg/kgo"
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

// TestNothingAcknowledgedIsLost takes brokers down and brings them back, at
// random moments and in every way there is, while a producer and a consumer
// group run on. A broker whose disk is lost too is given time to be in sync
// again before the next one goes: with the last copy gone nobody can keep the
// promise.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c := start(t, testConfig())
	producer := client(t, c)
	create(t, producer, "chaos", 6, 3)
	group := client(t, c, kgo.ConsumeTopics("chaos"), kgo.ConsumerGroup("chaos"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(2*time.Second), kgo.HeartbeatInterval(100*time.Millisecond))
	l := startLoad(producer, "chaos")
	l.awaitAcked(t, 100)
	for round := range 8 {
		id := int32(1 + random.IntN(3))
		how, wipe := "stop", false
		switch random.IntN(3) {
		case 0:
			require.NoError(t, c.Stop(id))
		case 1:
			how = "kill"
			require.NoError(t, c.Kill(id))
		case 2:
			how, wipe = "kill and wipe", true
			require.NoError(t, c.Kill(id))
			require.NoError(t, c.Wipe(id))
		}
		pause := time.Duration(random.IntN(300)) * time.Millisecond
		t.Logf("round %d: %s broker %d for %v, %d acknowledged", round, how, id, pause, l.count.Load())
		time.Sleep(pause)
		l.awaitAcked(t, 50) // the others go on without it
		require.NoError(t, c.Restart(ctx(t), id))
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		if wipe || random.IntN(2) == 0 {
			awaitInSync(t, producer, "chaos")
		}
	}
	l.end()

	// Were one lost, these would not end.
	consumeUntil(t, group, l.allIn)
	fresh := client(t, c, kgo.ConsumeTopics("chaos"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for value, times := range consumeUntil(t, fresh, l.allIn) {
		require.Equal(t, 1, times, "an idempotent producer's %s is in the log more than once", value)
	}
	stats := c.Stats()["produce"]
	require.Zero(t, stats.Expired, "answered by timeout, where the change of leader could have")
	require.Zero(t, stats.Panics)
	t.Logf("%d acknowledged\n%s", l.count.Load(), c.Table())
	group.Close()
	fresh.Close()
	requireNothingWaits(t, c)
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
