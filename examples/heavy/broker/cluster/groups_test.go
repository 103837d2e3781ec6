package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a consumer in a group that reads in the background until it leaves
// or dies.
type member struct {
	client *kgo.Client
	wire   *wire
	has    atomic.Int64 // partitions
	cancel context.CancelFunc
	done   chan struct{}
}

// seen is what the members of a group have read, together.
type seen struct {
	mu struct {
		sync.Mutex
		values map[string]int
	}
}

func newSeen() *seen {
	s := &seen{}
	s.mu.values = make(map[string]int)
	return s
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.values)
}

func (s *seen) await(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return s.count() >= n }, patience, time.Millisecond)
}

func consumeAs(t *testing.T, c *Cluster, s *seen, topic, group string, opts ...kgo.Opt) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{wire: &wire{}, cancel: cancel, done: make(chan struct{})}
	m.client = client(t, c, append([]kgo.Opt{
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.AutoCommitInterval(100 * time.Millisecond), kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.Dialer(m.wire.dial),
		kgo.OnPartitionsAssigned(m.count(+1)), kgo.OnPartitionsRevoked(m.count(-1)), kgo.OnPartitionsLost(m.count(-1)),
	}, opts...)...)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			m.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				s.mu.Lock()
				s.mu.values[string(r.Value)]++
				s.mu.Unlock()
			})
		}
	}()
	t.Cleanup(func() { cancel(); <-m.done })
	return m
}

func (m *member) count(sign int64) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		for _, p := range partitions {
			m.has.Add(sign * int64(len(p)))
		}
	}
}

func (m *member) stopReading() {
	m.cancel()
	<-m.done
}

// leave says goodbye; die does not.
func (m *member) leave() {
	m.stopReading()
	m.client.Close()
}

func (m *member) die() {
	m.wire.cut()
	m.stopReading()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.client.LeaveGroupContext(ctx) // which it cannot, and need not try for long
}

// wire is what connects one client; cut, it stays so.
type wire struct {
	mu struct {
		sync.Mutex
		conns []net.Conn
		isCut bool
	}
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.isCut {
		_ = conn.Close()
		return nil, errCut
	}
	w.mu.conns = append(w.mu.conns, conn)
	return conn, nil
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.isCut = true
	for _, conn := range w.mu.conns {
		_ = conn.Close()
	}
}

var errCut = errors.New("the wire is cut")

// settled waits until the members share n partitions among them, each its part.
func settled(t *testing.T, n int64, members ...*member) {
	t.Helper()
	require.Eventually(t, func() bool {
		sum, least := int64(0), n
		for _, m := range members {
			sum, least = sum+m.has.Load(), min(least, m.has.Load())
		}
		return sum == n && least > 0
	}, patience, 10*time.Millisecond)
}

func TestMembersJoinLeaveAndDie(t *testing.T) {
	c := start(t, testConfig())
	producer := client(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	create(t, producer, "work", 6, 3)
	s := newSeen()
	first := consumeAs(t, c, s, "work", "team")
	settled(t, 6, first)
	produce(t, producer, "work", 0, 200)
	s.await(t, 200)
	second := consumeAs(t, c, s, "work", "team")
	third := consumeAs(t, c, s, "work", "team", kgo.SessionTimeout(500*time.Millisecond))
	settled(t, 6, first, second, third)
	produce(t, producer, "work", 200, 400)
	s.await(t, 400)

	second.leave()
	settled(t, 6, first, third)
	produce(t, producer, "work", 400, 600)
	s.await(t, 600)

	before := total(c, "heartbeat").Expired
	third.die()
	produce(t, producer, "work", 600, 800)
	s.await(t, 800)
	require.Positive(t, total(c, "heartbeat").Expired-before, "noticed by its silence")

	first.leave()
	produce(t, producer, "work", 800, 1000)
	consumeAs(t, c, s, "work", "team")
	s.await(t, 1000)
}

func TestAGroupGoesOnWhereItCommitted(t *testing.T) {
	c := start(t, testConfig())
	producer := client(t, c)
	create(t, producer, "ledger", 3, 3)
	produce(t, producer, "ledger", 0, 300)
	reader := client(t, c, kgo.ConsumeTopics("ledger"), kgo.ConsumerGroup("readers"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	consume(t, reader, 300)
	require.NoError(t, reader.CommitUncommittedOffsets(ctx(t)))
	reader.Close()
	produce(t, producer, "ledger", 300, 400)

	// One of them has coordinated the group.
	for id := 1; id <= 3; id++ {
		require.NoError(t, c.Kill(id))
		require.NoError(t, c.Restart(id))
		awaitInSync(t, producer, "ledger")
	}
	again := client(t, c, kgo.ConsumeTopics("ledger"), kgo.ConsumerGroup("readers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := consume(t, again, 100)
	require.Len(t, got, 100, "only what came after the commit")
	require.NotContains(t, got, "000299")
}

func TestAStaticMemberKeepsItsPlace(t *testing.T) {
	c := start(t, testConfig())
	producer := client(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	create(t, producer, "static", 4, 3)
	s := newSeen()
	static := func(instance string) *member {
		return consumeAs(t, c, s, "static", "fixed", kgo.InstanceID(instance), kgo.SessionTimeout(20*time.Second))
	}
	x := static("x")
	settled(t, 4, x) // and so it leads: a leader that comes back may have franz-go ask for a rebalance by itself
	y := static("y")
	settled(t, 4, x, y)
	produce(t, producer, "static", 0, 200)
	s.await(t, 200)
	var generation int32
	require.Eventually(t, func() bool { // a member can be assigned to before another has heard of the generation
		_, generation = x.client.GroupMetadata()
		_, other := y.client.GroupMetadata()
		return generation == other
	}, patience, 10*time.Millisecond)
	y.leave() // of a static member, the client says nothing
	static("y")
	produce(t, producer, "static", 200, 400)
	s.await(t, 400)
	_, now := x.client.GroupMetadata()
	require.Equal(t, generation, now, "nobody had to join again")
}

// TestAnEagerGroup gives everything up in each rebalance, as clients do by default in
// most languages.
func TestAnEagerGroup(t *testing.T) {
	c := start(t, testConfig())
	producer := client(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	create(t, producer, "eager", 4, 3)
	s := newSeen()
	first := consumeAs(t, c, s, "eager", "eager", kgo.Balancers(kgo.RangeBalancer()))
	settled(t, 4, first)
	second := consumeAs(t, c, s, "eager", "eager", kgo.Balancers(kgo.RangeBalancer()))
	settled(t, 4, first, second)
	produce(t, producer, "eager", 0, 200)
	s.await(t, 200)
	first.leave()
	settled(t, 4, second)
	produce(t, producer, "eager", 200, 400)
	s.await(t, 400)
}
