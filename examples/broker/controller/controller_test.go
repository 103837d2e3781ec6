package controller

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience       = 30 * time.Second
	sessionTimeout = 6 * time.Second
)

// bench is a controller whose sessions' time a test moves by hand.
type bench struct {
	*Controller
	t      *testing.T
	ctx    context.Context
	timer  *timer.ManualTimer
	logged *debugservertest.Output
}

// requireLogged requires a line that has all of the texts.
func (b *bench) requireLogged(texts ...string) {
	b.t.Helper()
	require.Condition(b.t, func() bool {
		return slices.ContainsFunc(strings.Split(b.logged.String(), "\n"), func(line string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		})
	}, "no line has all of %q:\n%s", texts, b.logged)
}

func newBench(t *testing.T) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	manual, err := timer.NewManualTimer()
	require.NoError(t, err)
	logged := new(debugservertest.Output)
	c, err := Start(Config{
		Addr: "127.0.0.1:0", SessionTimeout: sessionTimeout, Logger: slog.New(slog.NewTextHandler(logged, nil)),
		Purgatory: func(kind string) []purgatory.Option {
			if kind == "picture" {
				return nil // retries are paced by it
			}
			return []purgatory.Option{purgatory.WithTimer(manual), purgatory.WithoutReaper()}
		},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &bench{c, t, ctx, manual, logged}
}

// node is a broker as the controller sees it: a connection of its own, and a
// server that takes pictures.
type node struct {
	*bench
	id          int32
	incarnation byte
	client      *wire.Client
	server      *wire.Server
	epoch       int64

	mu      sync.Mutex
	picture *kmsg.UpdateMetadataRequest
}

// node starts one; it is not registered yet.
func (b *bench) node(id int32, incarnation byte) *node {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	n := &node{bench: b, id: id, incarnation: incarnation}
	n.server = wire.Serve(l, wire.Versions{6: {Min: 7, Max: 7}}, n, wire.Limits{})
	b.t.Cleanup(n.server.Close)
	n.client, err = wire.Dial(b.ctx, b.Addr(), "node")
	require.NoError(b.t, err)
	b.t.Cleanup(n.client.Close)
	return n
}

// nodes starts and registers the brokers 1 to count.
func (b *bench) nodes(count int32) []*node {
	b.t.Helper()
	all := []*node{nil}
	for id := int32(1); id <= count; id++ {
		n := b.node(id, byte(id))
		require.NoError(b.t, n.register())
		all = append(all, n)
	}
	return all
}

// Handle takes a picture.
func (n *node) Handle(_ *wire.Conn, req kmsg.Request, reply func(kmsg.Response)) {
	n.mu.Lock()
	n.picture = req.(*kmsg.UpdateMetadataRequest)
	n.mu.Unlock()
	reply(req.ResponseKind())
}

func (n *node) Gone(*wire.Conn) {}

func (n *node) register() error {
	n.t.Helper()
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.IncarnationID[0] = 3, n.id, n.incarnation
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Host, listener.Port = "127.0.0.1", uint16(n.server.Addr().Port)
	req.Listeners = append(req.Listeners, listener)
	resp, err := n.client.Do(n.ctx, req)
	require.NoError(n.t, err)
	answer := resp.(*kmsg.BrokerRegistrationResponse)
	if answer.ErrorCode == 0 {
		n.epoch = answer.BrokerEpoch
	}
	return kerr.ErrorForCode(answer.ErrorCode)
}

func (n *node) heartbeat(leaving bool) error {
	n.t.Helper()
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.WantShutdown = n.id, n.epoch, leaving
	resp, err := n.client.Do(n.ctx, req)
	require.NoError(n.t, err)
	return kerr.ErrorForCode(resp.(*kmsg.BrokerHeartbeatResponse).ErrorCode)
}

// create makes the topic t of one partition and returns what the controller keeps of it.
func (n *node) create(replicas int16) *topic {
	n.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "t", 1, replicas
	req.Topics = append(req.Topics, rt)
	resp, err := n.client.Do(n.ctx, req)
	require.NoError(n.t, err)
	require.Zero(n.t, resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	n.Controller.mu.Lock()
	defer n.Controller.mu.Unlock()
	return n.Controller.mu.topics["t"]
}

// state is a copy of a topic's first partition.
func (b *bench) state(t *topic) partition {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *t.partitions[0]
}

// alter proposes an in-sync set as a node that leads; epochs are the members'.
func (n *node) alter(t *topic, leaderEpoch, partitionEpoch int32, members map[int32]int64) (top, of error) {
	n.t.Helper()
	part := kmsg.NewAlterPartitionRequestTopicPartition()
	part.LeaderEpoch, part.PartitionEpoch = leaderEpoch, partitionEpoch
	for _, id := range slices.Sorted(maps.Keys(members)) {
		part.NewEpochISR = append(part.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: members[id]})
	}
	rt := kmsg.NewAlterPartitionRequestTopic()
	rt.TopicID, rt.Partitions = t.id, append(rt.Partitions, part)
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch, req.Topics = 3, n.id, n.epoch, append(req.Topics, rt)
	resp, err := n.client.Do(n.ctx, req)
	require.NoError(n.t, err)
	answer := resp.(*kmsg.AlterPartitionResponse)
	if answer.ErrorCode != 0 {
		return kerr.ErrorForCode(answer.ErrorCode), nil
	}
	return nil, kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
}

// awaitAlive waits until the controller counts so many live brokers.
func (b *bench) awaitAlive(count int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.mu.brokers) == count
	}, patience, time.Millisecond)
}

// TestASecondProcessIsRefusedWhileTheFirstLives, and let in when it does not. The
// same process may register again: its connection broke before the controller saw it.
func TestASecondProcessIsRefusedWhileTheFirstLives(t *testing.T) {
	b := newBench(t)
	first, second := b.node(1, 'a'), b.node(1, 'b')
	require.NoError(t, first.register())
	for range 3 {
		require.ErrorIs(t, second.register(), kerr.DuplicateBrokerRegistration)
		require.NoError(t, first.heartbeat(false), "the first is not disturbed")
	}
	again := b.node(1, 'a')
	require.NoError(t, again.register())
	require.NotEqual(t, first.epoch, again.epoch)
	require.ErrorIs(t, first.heartbeat(false), kerr.StaleBrokerEpoch)
	again.client.Close()
	b.awaitAlive(0)
	require.NoError(t, second.register())
	b.requireLogged("level=WARN", "a second process", "broker=1")
}

// TestASilentBrokerIsFenced, and with a broken connection at once.
func TestASilentBrokerIsFenced(t *testing.T) {
	b := newBench(t)
	n := b.nodes(3)
	topic := n[1].create(3)
	require.Equal(t, int32(1), b.state(topic).leader)
	b.timer.AdvanceClock(sessionTimeout - time.Second)
	require.NoError(t, n[2].heartbeat(false))
	require.NoError(t, n[3].heartbeat(false))
	b.timer.AdvanceClock(time.Second)
	b.awaitAlive(2)
	require.ErrorIs(t, n[1].heartbeat(false), kerr.StaleBrokerEpoch)
	require.Equal(t, partition{topic: "t", replicas: []int32{1, 2, 3}, isr: []int32{2, 3}, leader: 2, leaderEpoch: 1, epoch: 3}, b.state(topic))
	n[2].client.Close()
	b.awaitAlive(1)
	require.Equal(t, []int32{3}, b.state(topic).isr)
	require.NoError(t, n[3].heartbeat(true))
	b.awaitAlive(0)
	last := b.state(topic)
	require.Equal(t, []int32{3}, last.isr, "what the last one has is all there is")
	require.Equal(t, int32(nobody), last.leader)
	require.NoError(t, n[1].register())
	require.Equal(t, int32(nobody), b.state(topic).leader, "it was not in sync")
	require.NoError(t, n[3].register())
	require.Equal(t, int32(3), b.state(topic).leader)
	b.requireLogged("level=INFO", "broker registered", "broker=1")
	b.requireLogged("level=WARN", "broker fenced", "broker=1", errSilent.Error())
	b.requireLogged("level=WARN", "broker fenced", "broker=2", errGone.Error())
	b.requireLogged("level=WARN", "broker fenced", "broker=3", errLeaving.Error())
	b.requireLogged("level=INFO", "leader elected", "topic=t", "partition=0", "leader=2", "before=1")
	b.requireLogged("level=WARN", "nobody leads", "topic=t", "before=3")
}

// TestOldNewsIsFenced: every way in which a leader's word can be out of date.
func TestOldNewsIsFenced(t *testing.T) {
	b := newBench(t)
	n := b.nodes(3)
	topic := n[1].create(3)
	p := b.state(topic)
	all := map[int32]int64{1: n[1].epoch, 2: n[2].epoch, 3: n[3].epoch}
	_, err := n[2].alter(topic, p.leaderEpoch, p.epoch, all)
	require.ErrorIs(t, err, kerr.FencedLeaderEpoch, "not the leader")
	_, err = n[1].alter(topic, p.leaderEpoch-1, p.epoch, all)
	require.ErrorIs(t, err, kerr.FencedLeaderEpoch)
	_, err = n[1].alter(topic, p.leaderEpoch, p.epoch-1, all)
	require.ErrorIs(t, err, kerr.InvalidUpdateVersion)
	_, err = n[1].alter(topic, p.leaderEpoch, p.epoch, map[int32]int64{2: n[2].epoch})
	require.ErrorIs(t, err, kerr.InvalidRequest, "without itself")
	_, err = n[1].alter(topic, p.leaderEpoch, p.epoch, map[int32]int64{1: -1, 3: n[3].epoch - 1})
	require.ErrorIs(t, err, kerr.IneligibleReplica, "seen in sync in a former life")
	_, err = n[1].alter(topic, p.leaderEpoch, p.epoch, map[int32]int64{1: -1, 9: -1})
	require.ErrorIs(t, err, kerr.IneligibleReplica)
	require.Equal(t, p, b.state(topic), "none of it changed anything")
	_, err = n[1].alter(topic, p.leaderEpoch, p.epoch, map[int32]int64{1: -1, 2: n[2].epoch})
	require.NoError(t, err)
	require.ElementsMatch(t, []int32{1, 2}, b.state(topic).isr)
	b.requireLogged("level=INFO", "in-sync set changed", "topic=t", "leader=1", "insync=\"[1 2]\"", "before=\"[1 2 3]\"")
	epoch := n[1].epoch
	n[1].epoch--
	top, _ := n[1].alter(topic, p.leaderEpoch, p.epoch+1, all)
	require.ErrorIs(t, top, kerr.StaleBrokerEpoch)
	n[1].epoch = epoch
}

// TestThePreferredLeaderLeadsAgain once it is in sync.
func TestThePreferredLeaderLeadsAgain(t *testing.T) {
	b := newBench(t)
	n := b.nodes(2)
	topic := n[1].create(2)
	n[1].client.Close()
	b.awaitAlive(1)
	require.Equal(t, int32(2), b.state(topic).leader)
	back := b.node(1, 'x')
	require.NoError(t, back.register())
	p := b.state(topic)
	require.Equal(t, int32(2), p.leader)
	_, err := n[2].alter(topic, p.leaderEpoch, p.epoch, map[int32]int64{1: back.epoch, 2: n[2].epoch})
	require.NoError(t, err)
	require.Equal(t, int32(1), b.state(topic).leader)
}

// TestEveryBrokerSeesEveryChange, with the epochs under which brokers are registered.
func TestEveryBrokerSeesEveryChange(t *testing.T) {
	b := newBench(t)
	n := b.nodes(3)
	n[1].create(3)
	for _, one := range n[1:] {
		require.Eventually(t, func() bool {
			one.mu.Lock()
			defer one.mu.Unlock()
			if one.picture == nil || len(one.picture.LiveBrokers) != 3 || len(one.picture.TopicStates) != 1 {
				return false
			}
			for _, live := range one.picture.LiveBrokers {
				if epoch, ok := RegisteredEpoch(live); !ok || epoch != n[live.ID].epoch {
					return false
				}
			}
			return true
		}, patience, time.Millisecond)
	}
}
