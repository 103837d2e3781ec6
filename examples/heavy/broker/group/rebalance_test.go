package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAnEmptiedGroupLeavesNothing: one member leaves, the other goes before it has
// joined again, and the rebalance does not wait for its timeout.
func TestAnEmptiedGroupLeavesNothing(t *testing.T) {
	b := newBench(t)
	x, y, _ := b.pair()
	leave := func(id string) {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group, req.Members = 5, "g", []kmsg.LeaveGroupRequestMember{{MemberID: id}}
		require.Zero(t, b.Leave(req).(*kmsg.LeaveGroupResponse).Members[0].ErrorCode)
	}
	leave(y)
	require.Equal(t, int64(1), b.Rebalances.Stats().Pending)
	leave(x)
	require.Zero(t, b.Groups())
	require.Zero(t, b.Rebalances.Stats().Pending)
	require.Zero(t, b.Heartbeats.Stats().Pending)
}

// TestNobodyCommitsWhileAGenerationSyncs: the offsets would be of partitions that
// are being given to others.
func TestNobodyCommitsWhileAGenerationSyncs(t *testing.T) {
	b := newBench(t)
	x, joinX := b.newMember(1)
	b.pass(3 * time.Second)
	generation := joinX.get(t).Generation
	commit := func() error {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation = "g", x, generation
		return b.Commit(req, nil)
	}
	require.ErrorIs(t, commit(), kerr.RebalanceInProgress)
	require.NoError(t, b.heartbeat(x, generation), "it is not to join again")
	b.sync(1, x, generation, x).get(t)
	require.NoError(t, commit())
	_, _ = b.newMember(2)
	require.ErrorIs(t, b.heartbeat(x, generation), kerr.RebalanceInProgress)
	require.NoError(t, commit(), "what it has until it joins again")
}

// TestAMemberInAHurryEvictsNobody: the leader may take as long to assign as any member gives a rebalance.
func TestAMemberInAHurryEvictsNobody(t *testing.T) {
	b := newBench(t)
	x, joinX := b.newMember(1)
	y, joinY := b.newMember(2)
	b.pass(3 * time.Second)
	got := joinX.get(t)
	joinY.get(t)
	if got.LeaderID != x {
		x, y = y, x
	}
	b.group("g").mu.members[y].rebalance = time.Second
	waiting := b.sync(2, y, got.Generation)
	b.pass(2 * time.Second)
	require.Empty(t, waiting)
	require.Zero(t, b.sync(1, x, got.Generation, x, y).get(t).ErrorCode)
	require.Equal(t, "for "+y, string(waiting.get(t).MemberAssignment))
}

// TestWhatIsCommittedStays when the group has gone, and is added to: a client that
// assigns partitions to itself may commit then.
func TestWhatIsCommittedStays(t *testing.T) {
	b := newBench(t)
	commit := func(n int32, offset int64) {
		t.Helper()
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = "g", -1
		require.NoError(t, b.Commit(req, Offsets{{Topic: "t", N: n}: {Offset: offset}}))
	}
	commit(0, 1)
	commit(1, 2)
	commit(0, 3)
	require.Equal(t, Offsets{{Topic: "t", N: 0}: {Offset: 3}, {Topic: "t", N: 1}: {Offset: 2}}, b.Committed("g"))
	_, _ = b.newMember(1)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "g", -1
	require.ErrorIs(t, b.Commit(req, nil), kerr.UnknownMemberID, "the group has members now")
}
