package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// sick is a log whose writes fail, or hang, when it is told so.
type sick struct {
	raft.LogStore
	full    atomic.Bool
	hang    atomic.Pointer[chan struct{}]
	hanging atomic.Int64 // writes that have hung
}

func (s *sick) StoreLogs(logs []*raft.Log) error {
	if s.full.Load() {
		return &os.PathError{Op: "write", Path: "raft.db", Err: syscall.ENOSPC}
	}
	if hang := s.hang.Load(); hang != nil {
		s.hanging.Add(1)
		<-*hang
	}
	return s.LogStore.StoreLogs(logs)
}

func (s *sick) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// TestFullDisk fills the leader's disk: the others elect one of themselves, and nothing that was written is lost. When there is
// room again it follows.
func TestFullDisk(t *testing.T) {
	all := members(t, 3)
	var nodes []*Node
	disks := make(map[*Node]*sick)
	for _, m := range all {
		disk := &sick{}
		c := config(t, m, all)
		c.wrapLog = func(s raft.LogStore) raft.LogStore {
			disk.LogStore = s
			return disk
		}
		n := open(t, c)
		nodes = append(nodes, n)
		disks[n] = disk
	}
	ctx := context.Background()
	leader := leaderOf(t, nodes)
	_, err := leader.Propose(ctx, "k", []byte("kept"), patient)
	require.NoError(t, err)

	disks[leader].full.Store(true)
	_, err = leader.Propose(ctx, "k", []byte("refused"), patient)
	require.Error(t, err)
	var next *Node
	require.Eventually(t, func() bool {
		next = leaderOf(t, nodes)
		return next != leader
	}, patient, 10*time.Millisecond)
	e, _, err := next.Read(ctx, "k", patient)
	require.NoError(t, err)
	require.Equal(t, "kept", string(e.Value))
	last, err := next.Propose(ctx, "k", []byte("new"), patient)
	require.NoError(t, err)

	disks[leader].full.Store(false)
	require.NoError(t, leader.AwaitApplied(ctx, last, patient))
}

// TestStuckEngine has the log hang under many proposals: those that wait end by their own deadlines, what the engine had not
// taken by then is reported as not written, and never is, and beyond the limit nothing is queued.
func TestStuckEngine(t *testing.T) {
	const calls = 700 // more than the engine takes: it queues 256, and the log has at most 257 in hand
	disk := &sick{}
	n := alone(t, func(c *Config) {
		c.MaxPending = calls
		c.wrapLog = func(s raft.LogStore) raft.LogStore {
			disk.LogStore = s
			return disk
		}
	})
	hang := make(chan struct{})
	disk.hang.Store(&hang)
	ctx := context.Background()
	results := make([]error, calls)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { _, results[i] = n.Propose(ctx, fmt.Sprint(i), []byte("v"), 3*time.Second) })
	}
	require.Eventually(t, func() bool { return n.proposals.NumDelayed() == calls }, patient, time.Millisecond)
	_, err := n.Propose(ctx, "refused", []byte("v"), time.Second)
	require.ErrorIs(t, err, ErrFull)
	wg.Wait()
	cancelled, cancel := context.WithCancelCause(ctx)
	gone := errors.New("client has gone")
	cancel(gone)
	_, err = n.Propose(cancelled, "gone", []byte("v"), patient)
	require.ErrorIs(t, err, gone)
	require.Zero(t, n.proposals.NumDelayed())

	disk.hang.Store(nil)
	close(hang)
	_, err = n.Propose(ctx, "after", []byte("v"), patient)
	require.NoError(t, err)
	withdrawn := 0
	for i, err := range results {
		var p *ProposalError
		require.ErrorIs(t, err, ErrDeadline)
		require.ErrorAs(t, err, &p)
		if !p.MaybeWritten {
			withdrawn++
			_, found, err := n.Read(ctx, fmt.Sprint(i), patient)
			require.NoError(t, err)
			require.False(t, found, "proposal %d was reported as not written", i)
		}
	}
	require.Positive(t, withdrawn)
	for _, key := range []string{"refused", "gone"} {
		_, found := n.ReadStale(key)
		require.False(t, found, key)
	}
}

func TestBadInput(t *testing.T) {
	n := alone(t, func(c *Config) { c.MaxValue = 100 })
	ctx := context.Background()
	propose := func(key string, value int, timeout time.Duration) error {
		_, err := n.Propose(ctx, key, make([]byte, value), timeout)
		return err
	}
	require.NoError(t, propose("k", 100, patient))
	require.ErrorIs(t, propose("k", 101, patient), ErrTooLarge)
	require.ErrorIs(t, propose("k", 100<<20, patient), ErrTooLarge)
	require.ErrorIs(t, propose(strings.Repeat("k", MaxKey+1), 1, patient), ErrTooLarge)
	require.ErrorIs(t, propose("", 1, patient), ErrBadKey)
	require.ErrorIs(t, propose("\xff", 1, patient), ErrBadKey)
	require.ErrorIs(t, propose("k", 1, 0), ErrBadTimeout)
	require.ErrorIs(t, propose("k", 1, -time.Second), ErrBadTimeout)
	require.ErrorIs(t, propose("k", 1, MaxTimeout+1), ErrBadTimeout)
	_, err := n.Watch(ctx, "k", 1<<63, patient)
	require.ErrorIs(t, err, ErrBadRevision)
	_, _, err = n.Read(ctx, "", patient)
	require.ErrorIs(t, err, ErrBadKey)
	require.NoError(t, n.Close())
	require.ErrorIs(t, propose("k", 1, patient), ErrClosed)
}
