package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// bench is a coordinator whose time a test moves by hand.
type bench struct {
	*Coordinator
	t     *testing.T
	timer *timer.ManualTimer
	left  map[uint64]bool // connections that have ended
}

func (b *bench) client(conn uint64) Client {
	return Client{Conn: conn, Open: func() bool { return !b.left[conn] }}
}

// leave ends a connection.
func (b *bench) leave(conn uint64) {
	b.left[conn] = true
	b.Gone(conn)
}

func newBench(t *testing.T) *bench {
	manual, err := timer.NewManualTimer()
	require.NoError(t, err)
	b := &bench{t: t, timer: manual, left: make(map[uint64]bool)}
	b.Coordinator, err = New(time.Second, 3*time.Second, purgatory.WithTimer(manual), purgatory.WithoutReaper())
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func (b *bench) pass(d time.Duration) { b.timer.AdvanceClock(d) }

// answer is where a reply arrives; empty while the request waits.
type answer[R kmsg.Response] chan R

func (a answer[R]) reply(resp kmsg.Response) { a <- resp.(R) }

func (a answer[R]) get(t *testing.T) R {
	t.Helper()
	require.Len(t, a, 1, "one answer, and now")
	return <-a
}

const sessionTimeout, rebalanceTimeout = 10 * time.Second, 60 * time.Second

func (b *bench) join(conn uint64, id string, instance *string) answer[*kmsg.JoinGroupResponse] {
	return b.joinWith(conn, id, instance, kmsg.JoinGroupRequestProtocol{Name: "range", Metadata: []byte("m")})
}

func (b *bench) joinWith(conn uint64, id string, instance *string, protocols ...kmsg.JoinGroupRequestProtocol) answer[*kmsg.JoinGroupResponse] {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = 9
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = "g", id, instance, "consumer"
	req.SessionTimeoutMillis = int32(sessionTimeout.Milliseconds())
	req.RebalanceTimeoutMillis = int32(rebalanceTimeout.Milliseconds())
	req.Protocols = protocols
	a := make(answer[*kmsg.JoinGroupResponse], 2)
	b.Join(b.client(conn), req, a.reply)
	return a
}

func (b *bench) sync(conn uint64, id string, generation int32, assign ...string) answer[*kmsg.SyncGroupResponse] {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = 5
	req.Group, req.MemberID, req.Generation = "g", id, generation
	for _, member := range assign {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: member, MemberAssignment: []byte("for " + member)})
	}
	a := make(answer[*kmsg.SyncGroupResponse], 2)
	b.Sync(b.client(conn), req, a.reply)
	return a
}

func (b *bench) heartbeat(id string, generation int32) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = "g", id, generation
	return kerr.ErrorForCode(b.Heartbeat(req).(*kmsg.HeartbeatResponse).ErrorCode)
}

// newMember begins to join, and returns the id that the group has given it.
func (b *bench) newMember(conn uint64) (string, answer[*kmsg.JoinGroupResponse]) {
	b.t.Helper()
	joining := b.join(conn, "", nil)
	for id, m := range b.group("g").mu.members {
		if m.wait != nil && m.wait.client.Conn == conn {
			return id, joining
		}
	}
	require.Fail(b.t, "it does not wait")
	return "", nil
}

// pair is a stable group of two; the first leads.
func (b *bench) pair() (leader, follower string, generation int32) {
	b.t.Helper()
	x, joinX := b.newMember(1)
	y, joinY := b.newMember(2)
	b.pass(3 * time.Second)
	got := joinX.get(b.t)
	joinY.get(b.t)
	if got.LeaderID != x {
		x, y = y, x
	}
	waiting := b.sync(2, y, got.Generation)
	require.Empty(b.t, waiting)
	require.Equal(b.t, "for "+x, string(b.sync(1, x, got.Generation, x, y).get(b.t).MemberAssignment))
	require.Equal(b.t, "for "+y, string(waiting.get(b.t).MemberAssignment))
	return x, y, got.Generation
}

func TestTheFirstMemberWaitsForOthers(t *testing.T) {
	b := newBench(t)
	_, x := b.newMember(1)
	_, y := b.newMember(2)
	b.pass(2 * time.Second)
	require.Empty(t, x)
	require.Empty(t, y)
	b.pass(time.Second)
	require.Len(t, append(x.get(t).Members, y.get(t).Members...), 2, "the leader's list")
	stats := b.Rebalances.Stats()
	require.Equal(t, int64(1), stats.Expired, "the wait for others, and nothing else")
	require.Equal(t, int64(2), stats.Satisfied)
}

// TestARebalanceEndsWithTheLastMember: not by a timeout, and with few checks.
func TestARebalanceEndsWithTheLastMember(t *testing.T) {
	b := newBench(t)
	x, y, generation := b.pair()
	before := b.Rebalances.Stats()
	z, joinZ := b.newMember(3)
	require.ErrorIs(t, b.heartbeat(x, generation), kerr.RebalanceInProgress)
	joinX := b.join(1, x, nil)
	require.Empty(t, joinX)
	joinY := b.join(2, y, nil)
	for _, join := range []answer[*kmsg.JoinGroupResponse]{joinX, joinY, joinZ} {
		require.Equal(t, generation+1, join.get(t).Generation)
	}
	after := b.Rebalances.Stats()
	require.Equal(t, before.Expired, after.Expired)
	require.Equal(t, int64(4), after.Satisfied-before.Satisfied, "three members and the rebalance")
	require.ErrorIs(t, b.heartbeat(z, generation), kerr.IllegalGeneration)
}

func TestASilentMemberIsLeftOut(t *testing.T) {
	b := newBench(t)
	x, y, generation := b.pair()
	for range 5 {
		b.pass(sessionTimeout - time.Second)
		require.NoError(t, b.heartbeat(x, generation))
		require.NoError(t, b.heartbeat(y, generation))
	}
	require.Zero(t, b.Heartbeats.Stats().Expired)
	b.pass(sessionTimeout - time.Second)
	require.NoError(t, b.heartbeat(x, generation))
	b.pass(time.Second)
	require.Equal(t, int64(1), b.Heartbeats.Stats().Expired)
	require.ErrorIs(t, b.heartbeat(y, generation), kerr.UnknownMemberID)
	require.ErrorIs(t, b.heartbeat(x, generation), kerr.RebalanceInProgress)
	require.Len(t, b.join(1, x, nil).get(t).Members, 1)
}

func TestWhoDoesNotRejoinIsLeftOut(t *testing.T) {
	b := newBench(t)
	x, y, generation := b.pair()
	_, join := b.newMember(3)
	rejoin := b.join(1, x, nil)
	for passed := time.Duration(0); passed < rebalanceTimeout; passed += time.Second {
		require.Empty(t, join)
		require.ErrorIs(t, b.heartbeat(y, generation), kerr.RebalanceInProgress) // alive, but does not come
		b.pass(time.Second)
	}
	require.Equal(t, join.get(t).Generation, rejoin.get(t).Generation)
	require.ErrorIs(t, b.heartbeat(y, generation), kerr.UnknownMemberID)
}

func TestALeaderThatDoesNotAssignIsLeftOut(t *testing.T) {
	b := newBench(t)
	x, joinX := b.newMember(1)
	y, joinY := b.newMember(2)
	b.pass(3 * time.Second)
	leader, other := joinX.get(t).LeaderID, y
	if joinY.get(t); leader == y {
		other = x
	}
	waiting := b.sync(2, other, 1)
	for range int(rebalanceTimeout / time.Second) {
		require.Empty(t, waiting)
		require.NoError(t, b.heartbeat(leader, 1))
		b.pass(time.Second)
	}
	require.Equal(t, kerr.RebalanceInProgress.Code, waiting.get(t).ErrorCode)
	require.ErrorIs(t, b.heartbeat(leader, 1), kerr.UnknownMemberID)
	require.Equal(t, other, b.join(2, other, nil).get(t).LeaderID)
}

// TestAVanishedClientLeavesNothing: its wait ends with its connection, itself
// with its session.
func TestAVanishedClientLeavesNothing(t *testing.T) {
	b := newBench(t)
	_, join := b.newMember(7)
	require.Equal(t, int64(2), b.Rebalances.Stats().Pending, "the member and the rebalance")
	b.Gone(7)
	join.get(t) // which nobody reads
	require.Equal(t, int64(1), b.Rebalances.Stats().Cancelled)
	b.pass(sessionTimeout)
	require.Zero(t, b.Rebalances.Stats().Pending)
	require.Zero(t, b.Heartbeats.Stats().Pending)
	require.Zero(t, b.Groups())
}

func TestLeaving(t *testing.T) {
	b := newBench(t)
	x, y, generation := b.pair()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group = 5, "g"
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: y}, {MemberID: "nobody"}}
	resp := b.Leave(leave).(*kmsg.LeaveGroupResponse)
	require.Zero(t, resp.Members[0].ErrorCode)
	require.Equal(t, kerr.UnknownMemberID.Code, resp.Members[1].ErrorCode)
	require.ErrorIs(t, b.heartbeat(x, generation), kerr.RebalanceInProgress)
	require.Equal(t, generation+1, b.join(1, x, nil).get(t).Generation)
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: x}}
	b.Leave(leave)
	require.Zero(t, b.Groups())
	require.Zero(t, b.Heartbeats.Stats().Pending)
	require.Zero(t, b.Heartbeats.Stats().Expired)
}

func TestAStaticMemberComesBackWithoutARebalance(t *testing.T) {
	b := newBench(t)
	instance := "rack-1"
	first := b.join(1, "", &instance)
	b.pass(3 * time.Second)
	joined := first.get(t)
	b.sync(1, joined.MemberID, joined.Generation, joined.MemberID).get(t)
	again := b.join(2, "", &instance).get(t)
	require.Equal(t, joined.Generation, again.Generation)
	require.NotEqual(t, joined.MemberID, again.MemberID)
	require.True(t, again.SkipAssignment)
	require.Equal(t, "for "+joined.MemberID, string(b.sync(2, again.MemberID, again.Generation).get(t).MemberAssignment))
	require.Equal(t, kerr.FencedInstanceID.Code, b.join(1, joined.MemberID, &instance).get(t).ErrorCode)

	rebalanced := kmsg.JoinGroupRequestProtocol{Name: "range", Metadata: []byte("m, of another generation")}
	once := b.joinWith(3, "", &instance, rebalanced).get(t)
	require.Equal(t, joined.Generation, once.Generation)
	require.Equal(t, rebalanced.Metadata, once.Members[0].ProtocolMetadata)
	roundRobin := kmsg.JoinGroupRequestProtocol{Name: "roundrobin", Metadata: []byte("m")}
	other := b.joinWith(4, "", &instance, roundRobin, rebalanced).get(t)
	require.Equal(t, joined.Generation+1, other.Generation, "another protocol is chosen")
}

// Groups is the number of groups that have members.
func (c *Coordinator) Groups() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.mu.groups {
		if len(g.mu.members) > 0 {
			n++
		}
	}
	return n
}
