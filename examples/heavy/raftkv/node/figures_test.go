package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
)

// waiters has n readers wait for positions far above what is applied, until the benchmark ends.
func waiters(b *testing.B, node *Node, n int) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			// It ends when ctx does.
			node.AwaitApplied(ctx, 1<<60+uint64(i), MaxTimeout) //nolint:errcheck // see above
		})
	}
	for node.positions.NumDelayed() < n {
		time.Sleep(time.Millisecond)
	}
	b.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// BenchmarkApplyLoop is what one entry costs on the apply loop: the store alone, and with those told who may wait, of whom many
// wait further up.
func BenchmarkApplyLoop(b *testing.B) {
	const batch = 64
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			all := members(b, 1)
			c := config(b, all[0], all)
			c.MaxPending = 200_000
			n, err := Open(c)
			require.NoError(b, err)
			awaitLeader(b, n)
			waiters(b, n, waiting)
			b.Cleanup(func() { require.NoError(b, n.Close()) })

			var writes []kv.Write
			var logs []*raft.Log
			for i := range batch {
				cmd := kv.Command{ID: kv.ID{Origin: 1}, Key: fmt.Sprint("k", i), Value: make([]byte, 100)}
				logs = append(logs, &raft.Log{Type: raft.LogCommand, Data: cmd.Encode()})
				writes = append(writes, kv.Write{Key: cmd.Key, Entry: kv.Entry{Value: cmd.Value}})
			}
			b.Run("store", func(b *testing.B) {
				s := kv.New()
				for i := 0; i < b.N; i += batch {
					s.Apply(writes, uint64(i))
				}
			})
			index := uint64(1000)
			b.Run("told", func(b *testing.B) {
				for i := 0; i < b.N; i += batch {
					index += batch
					n.positions.SignalUpTo(lineApplied, int64(index))
					for j := range writes {
						n.watches.SignalUpTo(writes[j].Key, int64(index))
					}
				}
			})
			b.Run("whole", func(b *testing.B) {
				m := (*machine)(n)
				for i := 0; i < b.N; i += batch {
					for _, l := range logs {
						index++
						l.Index = index
					}
					m.ApplyBatch(logs)
				}
			})
		})
	}
}

// BenchmarkPropose is a write on a cluster of three in this process, by many callers at a time: with the wait in the purgatory,
// and with the engine's own future, whose Error has no deadline. Run with -benchtime 5000x or more.
func BenchmarkPropose(b *testing.B) {
	all := members(b, 3)
	var nodes []*Node
	for _, m := range all {
		n, err := Open(config(b, m, all))
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, n.Close()) })
		nodes = append(nodes, n)
	}
	leader := leaderOf(b, nodes)
	value := make([]byte, 100)
	ways := []struct {
		name string
		put  func() error
	}{
		{"purgatory", func() error {
			_, err := leader.Propose(context.Background(), "k", value, patient)
			return err
		}},
		{"futures", func() error {
			c := kv.Command{Key: "k", Value: value}
			return leader.raft.Apply(c.Encode(), patient).Error()
		}},
	}
	for round := range 3 {
		for _, way := range ways {
			b.Run(fmt.Sprintf("%s/callers=64/round=%d", way.name, round+1), func(b *testing.B) {
				b.SetParallelism(32) // times two processors
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := way.put(); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

// TestReadsBehindAStuckBatch has a thousand reads wait for a batch that the disk does not take: each ends by its own deadline.
// How late they were is logged.
func TestReadsBehindAStuckBatch(t *testing.T) {
	disk := &sick{}
	n := alone(t, func(c *Config) {
		c.wrapLog = func(s raft.LogStore) raft.LogStore {
			disk.LogStore = s
			return disk
		}
	})
	hang := make(chan struct{})
	disk.hang.Store(&hang)
	ctx := context.Background()
	next := n.store.Applied() + 1
	proposed := make(chan error, 1)
	go func() {
		_, err := n.Propose(ctx, "k", []byte("stuck"), patient)
		proposed <- err
	}()
	const reads = 1000
	late := make([]time.Duration, reads)
	errs := make([]error, reads)
	var wg sync.WaitGroup
	for i := range reads {
		wg.Go(func() {
			timeout := 50*time.Millisecond + time.Duration(i)*100*time.Microsecond
			start := time.Now()
			errs[i] = n.AwaitApplied(ctx, next, timeout)
			late[i] = time.Since(start) - timeout
		})
	}
	wg.Wait()
	for i := range reads {
		require.ErrorIs(t, errs[i], ErrDeadline)
		require.GreaterOrEqual(t, late[i], time.Duration(0), "it ended before its deadline")
	}
	slices.Sort(late)
	t.Logf("late: median %v, p99 %v, at most %v", late[reads/2], late[reads*99/100], late[reads-1])
	require.Zero(t, n.positions.NumDelayed())

	patiently := make(chan error, 1)
	go func() { patiently <- n.AwaitApplied(ctx, next, patient) }()
	disk.hang.Store(nil)
	close(hang)
	require.NoError(t, errors.Join(<-proposed, <-patiently))
}
