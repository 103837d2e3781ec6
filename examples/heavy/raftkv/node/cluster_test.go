package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// three starts a cluster of three in this process, and waits until somebody leads. Read-index requests between members need
// the HTTP side: see package api. Tests here read on the leader.
func three(t *testing.T) []*Node {
	t.Helper()
	all := members(t, 3)
	nodes := make([]*Node, len(all))
	for i, m := range all {
		nodes[i] = open(t, config(t, m, all))
	}
	leaderOf(t, nodes)
	return nodes
}

// leaderOf waits until a node leads and can write.
func leaderOf(t testing.TB, nodes []*Node) *Node {
	t.Helper()
	var leader *Node
	require.Eventually(t, func() bool {
		for _, n := range nodes {
			if _, err := n.LeaderIndex(context.Background(), time.Second); err == nil {
				leader = n
				return true
			}
		}
		return false
	}, patient, 5*time.Millisecond)
	return leader
}

// TestLeadershipLostEndsProposals stops the other two: what the leader has submitted can never be committed, and no future of
// the engine would say so before the leader steps down.
func TestLeadershipLostEndsProposals(t *testing.T) {
	nodes := three(t)
	leader := leaderOf(t, nodes)
	for _, n := range nodes {
		if n != leader {
			require.NoError(t, n.Close())
		}
	}
	_, err := leader.Propose(context.Background(), "k", []byte("v"), patient)
	var p *ProposalError
	if !errors.As(err, &p) { // the leader has stepped down before it was asked
		require.ErrorIs(t, err, ErrNoLeader)
		return
	}
	require.ErrorIs(t, err, ErrLeadershipLost)
	require.True(t, p.MaybeWritten, "the engine was given it")
	require.Zero(t, leader.proposals.NumDelayed())

	_, err = leader.Propose(context.Background(), "k", []byte("v"), patient)
	require.ErrorIs(t, err, ErrNoLeader)
	_, _, err = leader.Read(context.Background(), "k", 50*time.Millisecond)
	require.ErrorIs(t, err, ErrDeadline, "a read waits for a leader, until its deadline")
	require.Zero(t, leader.positions.NumDelayed())
}

// openFiles returns the number of open descriptors, 0 where that is not known.
func openFiles() int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(files)
}

// TestLevelAfterLeaderChanges moves the leadership fifty times, under writers. A goroutine or a file that stayed open at every
// change would show twice over.
func TestLevelAfterLeaderChanges(t *testing.T) {
	const changes, some = 50, 20 // connections come and go
	nodes := three(t)
	move := func() {
		before := leaderOf(t, nodes)
		reign := before.reign.Load()
		require.Eventually(t, func() bool { // again, if it has taken longer than the engine waits for it
			return before.raft.LeadershipTransfer().Error() == nil || before.reign.Load() != reign
		}, patient, time.Millisecond)
		require.Eventually(t, func() bool { return before.reign.Load() != reign }, patient, time.Millisecond)
	}
	done := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					// Refused or lost by turns, and that is what this test is about.
					nodes[i%3].Propose(context.Background(), fmt.Sprint(w), []byte("v"), time.Second) //nolint:errcheck // see above
				}
			}
		})
	}
	for range 10 { // what is opened under load, connections above all, is open
		move()
	}
	goroutines, files := runtime.NumGoroutine(), openFiles()
	for range changes {
		move()
	}
	close(done)
	writers.Wait()
	var waiting, nowGoroutines, nowFiles int
	for until := time.Now().Add(patient); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		waiting, nowGoroutines, nowFiles = leaderOf(t, nodes).Status().Waiting, runtime.NumGoroutine(), openFiles()
		if waiting == 0 && nowGoroutines <= goroutines+some && nowFiles <= files+some {
			break
		}
	}
	t.Logf("%d leader changes: goroutines %d, then %d; files %d, then %d; %d waits left",
		changes, goroutines, nowGoroutines, files, nowFiles, waiting)
	require.Zero(t, waiting)
	require.LessOrEqual(t, nowGoroutines, goroutines+some)
	require.LessOrEqual(t, nowFiles, files+some)
}

// TestLateMemberCatchesUpBySnapshot adds a member whose first entries no log has any more, and has it wait for a position that
// the snapshot jumps over.
func TestLateMemberCatchesUpBySnapshot(t *testing.T) {
	n := alone(t, func(c *Config) {
		c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 16, time.Hour, 4
	})
	ctx := context.Background()
	var last uint64
	for i := range 50 {
		var err error
		last, err = n.Propose(ctx, fmt.Sprint("k", i%5), fmt.Append(nil, i), patient)
		require.NoError(t, err)
	}
	require.NoError(t, n.raft.Snapshot().Error())

	late := Member{"late", signalstest.FreeAddress(t)}
	c := config(t, late, nil)
	c.Join = true
	m := open(t, c)
	jumped, watched := make(chan error, 1), make(chan error, 1)
	go func() { jumped <- m.AwaitApplied(ctx, last/2, patient) }()
	go func() {
		_, err := m.Watch(ctx, "k4", last-1, patient)
		watched <- err
	}()
	require.Eventually(t, func() bool { return m.positions.NumDelayed()+m.watches.NumDelayed() == 2 }, patient, time.Millisecond)
	require.NoError(t, n.AddMember(ctx, late))
	require.NoError(t, <-jumped)
	require.NoError(t, <-watched)
	require.EqualValues(t, 1, m.restored.Load())
	e, found := m.ReadStale("k4")
	require.True(t, found)
	require.Equal(t, "49", string(e.Value))

	require.NoError(t, n.AddMember(ctx, late), "again is no error")
	require.ErrorIs(t, n.AddMember(ctx, Member{"late", signalstest.FreeAddress(t)}), ErrBadMember)
	require.ErrorIs(t, n.AddMember(ctx, Member{"other", late.Address}), ErrBadMember)
	require.ErrorIs(t, n.AddMember(ctx, Member{"other", "nowhere"}), ErrBadMember)
}

// TestSnapshotWakesEverybodyBelow restores a snapshot, and applies nothing after it.
func TestSnapshotWakesEverybodyBelow(t *testing.T) {
	n := alone(t, nil)
	ctx := context.Background()
	other := kv.New()
	other.Apply([]kv.Write{{Key: "k", Entry: kv.Entry{Value: []byte("v"), Revision: 900}}}, 1000)
	var snapshot bytes.Buffer
	require.NoError(t, other.Snapshot().Write(&snapshot))

	results := make(chan error, 20)
	for i := range uint64(10) {
		go func() { results <- n.AwaitApplied(ctx, 991+i, patient) }()
		go func() {
			_, err := n.Watch(ctx, "k", 890+i, patient)
			results <- err
		}()
	}
	above := make(chan error, 1)
	go func() { above <- n.AwaitApplied(ctx, 1001, 3*time.Second) }()
	require.Eventually(t, func() bool { return n.positions.NumDelayed()+n.watches.NumDelayed() == 21 }, patient, time.Millisecond)
	require.NoError(t, (*machine)(n).Restore(io.NopCloser(&snapshot)))
	for range cap(results) {
		require.NoError(t, <-results)
	}
	require.ErrorIs(t, <-above, ErrDeadline)
}

// TestReadsThatFillANodeAreAnswered: the wait for the confirmation that they need is not refused because of them.
func TestReadsThatFillANodeAreAnswered(t *testing.T) {
	all := members(t, 3)
	nodes := make([]*Node, len(all))
	for i, m := range all {
		c := config(t, m, all)
		c.MaxPending = 1
		nodes[i] = open(t, c)
	}
	leader := leaderOf(t, nodes)
	before := leader.Status().Refused
	_, _, err := leader.Read(context.Background(), "k", patient)
	require.NoError(t, err)
	require.Equal(t, before, leader.Status().Refused)
}

// TestOneIDJoinsOnce has two members ask for one id while the engine is busy: one of them is told that it is taken.
func TestOneIDJoinsOnce(t *testing.T) {
	disk := &sick{}
	n := alone(t, func(c *Config) {
		c.wrapLog = func(s raft.LogStore) raft.LogStore {
			disk.LogStore = s
			return disk
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	late, other := Member{"late", signalstest.FreeAddress(t)}, Member{"late", signalstest.FreeAddress(t)}
	c := config(t, late, nil)
	c.Join = true
	open(t, c)
	hang := make(chan struct{})
	disk.hang.Store(&hang)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- n.AddMember(ctx, late) }()
	require.Eventually(t, func() bool { return disk.hanging.Load() > 0 }, patient, time.Millisecond)
	go func() { second <- n.AddMember(ctx, other) }()
	time.Sleep(50 * time.Millisecond) // so that the second has come as far as it can
	disk.hang.Store(nil)
	close(hang)
	require.NoError(t, <-first)
	require.ErrorIs(t, <-second, ErrBadMember)
}

func TestConfirmationCountsFromWhenItWasAskedFor(t *testing.T) {
	c := newConfirming(nil)
	voters := []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "watcher", Suffrage: raft.Nonvoter}}
	require.EqualValues(t, 0, c.since(3, "a", voters))
	c.note("watcher", confirmation{3, 50})
	require.EqualValues(t, 0, c.since(3, "a", voters), "it has no vote")
	c.note("b", confirmation{3, 10})
	require.EqualValues(t, 10, c.since(3, "a", voters))
	require.EqualValues(t, 0, c.since(4, "a", voters), "of another term")
	c.note("b", confirmation{2, 99})
	require.EqualValues(t, 10, c.since(3, "a", voters), "a reply of an earlier term comes late")
	c.note("c", confirmation{3, 30})
	require.EqualValues(t, 30, c.since(3, "a", voters))
	c.note("c", confirmation{3, 20})
	require.EqualValues(t, 30, c.since(3, "a", voters))
	require.EqualValues(t, 0, c.since(3, "a", append(voters, raft.Server{ID: "d"}, raft.Server{ID: "e"}, raft.Server{ID: "f"})), "3 of 6")
}

// TestAReadWaitsForALeader: while there is none its rounds fail, and it goes on asking.
func TestAReadWaitsForALeader(t *testing.T) {
	all := members(t, 3)
	first := open(t, config(t, all[0], all))
	read := make(chan error, 1)
	go func() {
		_, _, err := first.Read(context.Background(), "k", patient)
		read <- err
	}()
	require.Eventually(t, func() bool { return first.rounds.started.Load() > 2 }, patient, time.Millisecond)
	for _, m := range all[1:] {
		c := config(t, m, all)
		c.Heartbeat = 10 * time.Second // so that first is elected: the others serve no requests here
		open(t, c)
	}
	require.NoError(t, <-read)
}
