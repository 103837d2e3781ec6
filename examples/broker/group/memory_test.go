package group

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/memory"
)

// TestGroupsHaveABound: what members say of themselves, and are assigned, counts as long
// as they are there, however many groups there are.
func TestGroupsHaveABound(t *testing.T) {
	b := newBench(t)
	b.config.Memory = memory.New("groups", 100<<10, nil)
	join := func(group string) answer[*kmsg.JoinGroupResponse] {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis = 3, group, "consumer", int32(sessionTimeout.Milliseconds())
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 10<<10)}}
		a := make(answer[*kmsg.JoinGroupResponse], 1)
		b.Join(b.client(1), req, a.reply)
		return a
	}
	fill := func(prefix string) (n int) {
		for ; n < 20; n++ {
			if a := join(fmt.Sprint(prefix, n)); len(a) > 0 {
				require.Equal(t, kerr.GroupMaxSizeReached.Code, a.get(t).ErrorCode)
				break
			}
		}
		require.LessOrEqual(t, b.config.Memory.Used(), b.config.Memory.Limit())
		return n
	}
	n := fill("a")
	require.Greater(t, n, 5)
	require.Less(t, n, 10)
	b.pass(b.config.InitialRebalance)
	b.pass(sessionTimeout) // nobody syncs
	require.Zero(t, b.config.Memory.Used())

	require.Equal(t, n, fill("b"))
	b.Resign(func(string) bool { return true })
	require.Zero(t, b.config.Memory.Used())

	first := join("c")
	b.pass(b.config.InitialRebalance)
	got := first.get(t)
	before := b.config.Memory.Used()
	sync := func(size int) int16 {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.Group, req.MemberID, req.Generation = 2, "c", got.MemberID, got.Generation
		req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: got.MemberID, MemberAssignment: make([]byte, size)}}
		a := make(answer[*kmsg.SyncGroupResponse], 1)
		b.Sync(b.client(1), req, a.reply)
		return a.get(t).ErrorCode
	}
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, sync(100<<10))
	require.Equal(t, before, b.config.Memory.Used())
	require.Zero(t, sync(50<<10))
	require.Equal(t, before+(50<<10), b.config.Memory.Used())
}
