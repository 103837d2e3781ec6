package controller

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

const sessionTimeout = 6 * time.Second

// bench is a controller whose sessions' time a test moves by hand.
type bench struct {
	*Controller
	t        *testing.T
	timer    *timer.ManualTimer
	logged   *debugservertest.Output
	sessions map[int32]*Session
}

func newBench(t *testing.T, brokers int32) *bench {
	manual, err := timer.NewManualTimer()
	require.NoError(t, err)
	logged := new(debugservertest.Output)
	c, err := New(sessionTimeout, slog.New(slog.NewTextHandler(logged, nil)), purgatory.WithTimer(manual), purgatory.WithoutReaper())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := &bench{c, t, manual, logged, make(map[int32]*Session)}
	for id := int32(1); id <= brokers; id++ {
		b.register(id)
	}
	return b
}

func (b *bench) register(id int32) *Session {
	b.t.Helper()
	s, err := b.Register(id, netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", 9000+id)))
	require.NoError(b.t, err)
	b.sessions[id] = s
	return s
}

func (b *bench) create(replicas int16) {
	b.t.Helper()
	_, err := b.Create("t", 1, replicas)
	require.NoError(b.t, err)
}

func (b *bench) state() Partition { return b.Picture().Topics["t"][0] }

// requireLogged requires a line that has all of the texts.
func (b *bench) requireLogged(texts ...string) {
	b.t.Helper()
	require.Condition(b.t, func() bool {
		return slices.ContainsFunc(strings.Split(b.logged.String(), "\n"), func(line string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		})
	}, "no line has all of %q:\n%s", texts, b.logged)
}

// TestASilentBrokerIsFenced, one that leaves at once, and the last that was in sync
// keeps the partition for itself.
func TestASilentBrokerIsFenced(t *testing.T) {
	b := newBench(t, 3)
	b.create(3)
	require.Equal(t, int32(1), b.state().Leader)
	b.timer.AdvanceClock(sessionTimeout - time.Second)
	require.True(t, b.sessions[2].Heartbeat())
	require.True(t, b.sessions[3].Heartbeat())
	b.timer.AdvanceClock(time.Second)
	require.False(t, b.sessions[1].Heartbeat())
	require.Equal(t, Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{2}, Leader: 2, LeaderEpoch: 1, Epoch: 2}, b.state(), "the third copies its log afresh")
	_, err := b.Alter(b.sessions[2], TopicPartition{"t", 0}, 1, 2, []int32{2, 3})
	require.NoError(t, err)
	b.sessions[2].Leave()
	require.Equal(t, []int32{3}, b.state().ISR)
	b.sessions[3].Leave()
	require.Equal(t, []int32{3}, b.state().ISR, "what the last one has is all there is")
	require.Equal(t, int32(Nobody), b.state().Leader)
	b.register(1)
	require.Equal(t, int32(Nobody), b.state().Leader, "it was not in sync")
	b.register(3)
	require.Equal(t, int32(3), b.state().Leader)
	b.requireLogged("level=WARN", "broker fenced", "broker=1", errSilent.Error())
	b.requireLogged("level=WARN", "broker fenced", "broker=3", errLeaving.Error())
	b.requireLogged("level=INFO", "leader elected", "partition=t-0", "leader=2", "before=1")
}

// TestABrokerThatStartsAgainIsANewOne, also before its silence was noticed: another
// leads, and its former session is worth nothing.
func TestABrokerThatStartsAgainIsANewOne(t *testing.T) {
	b := newBench(t, 2)
	b.create(2)
	former := b.sessions[1]
	b.register(1)
	require.False(t, former.Heartbeat())
	require.Equal(t, int32(2), b.state().Leader)
	require.Equal(t, []int32{2}, b.state().ISR)
	former.Leave()
	require.Len(t, b.Picture().Brokers, 2)
	b.timer.AdvanceClock(sessionTimeout - time.Second)
	require.True(t, b.sessions[1].Heartbeat())
	b.requireLogged("level=WARN", "broker fenced", "broker=1", errReplaced.Error())
}

// TestOldNewsIsFenced: every way in which a leader's word can be out of date.
func TestOldNewsIsFenced(t *testing.T) {
	b := newBench(t, 3)
	b.create(3)
	p := b.state()
	alter := func(session *Session, leaderEpoch, epoch int32, isr ...int32) error {
		_, err := b.Alter(session, TopicPartition{"t", 0}, leaderEpoch, epoch, isr)
		return err
	}
	require.ErrorIs(t, alter(b.sessions[2], p.LeaderEpoch, p.Epoch, 2), kerr.FencedLeaderEpoch, "not the leader")
	require.ErrorIs(t, alter(b.sessions[1], p.LeaderEpoch-1, p.Epoch, 1), kerr.FencedLeaderEpoch)
	require.ErrorIs(t, alter(b.sessions[1], p.LeaderEpoch, p.Epoch-1, 1), kerr.InvalidUpdateVersion)
	require.ErrorIs(t, alter(b.sessions[1], p.LeaderEpoch, p.Epoch, 2), kerr.InvalidRequest, "without itself")
	require.ErrorIs(t, alter(b.sessions[1], p.LeaderEpoch, p.Epoch, 1, 9), kerr.IneligibleReplica)
	require.Equal(t, p, b.state(), "none of it changed anything")
	require.NoError(t, alter(b.sessions[1], p.LeaderEpoch, p.Epoch, 1, 2))
	require.Equal(t, []int32{1, 2}, b.state().ISR)
	b.sessions[3].Leave()
	require.ErrorIs(t, alter(b.sessions[1], p.LeaderEpoch, p.Epoch+1, 1, 2, 3), kerr.IneligibleReplica, "it has died since")
	former := b.sessions[1]
	b.register(1)
	require.ErrorIs(t, alter(former, p.LeaderEpoch, p.Epoch+1, 1), kerr.StaleBrokerEpoch)
	b.requireLogged("level=INFO", "in-sync set changed", "partition=t-0", "leader=1", "insync=\"[1 2]\"", "before=\"[1 2 3]\"")
}

// TestAPictureDoesNotChange, and every broker hears that there is another.
func TestAPictureDoesNotChange(t *testing.T) {
	b := newBench(t, 3)
	b.create(3)
	before := b.Picture()
	for _, s := range b.sessions {
		<-s.Changed()
	}
	b.sessions[1].Leave()
	require.Equal(t, []int32{1, 2, 3}, before.Topics["t"][0].ISR)
	require.Len(t, before.Brokers, 3)
	require.Greater(t, b.Picture().Version, before.Version)
	<-b.sessions[2].Changed()
	<-b.sessions[3].Changed()
}

func TestProducerIDsDiffer(t *testing.T) {
	b := newBench(t, 0)
	first := b.NextProducerID()
	require.NotEqual(t, first, b.NextProducerID())
}
