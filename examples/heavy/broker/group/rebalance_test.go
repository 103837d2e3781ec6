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
		if err := b.MayCommit("g", x, nil, generation); err != nil {
			return err
		}
		return nil
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
	b.group("g", false).mu.members[y].rebalance = time.Second
	waiting := b.sync(2, y, got.Generation)
	b.pass(2 * time.Second)
	require.Empty(t, waiting)
	require.Zero(t, b.sync(1, x, got.Generation, x, y).get(t).ErrorCode)
	require.Equal(t, "for "+y, string(waiting.get(t).MemberAssignment))
}
