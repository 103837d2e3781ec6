package main

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/heavy/raftcheck/cluster"
)

// tries is how often a defect may get away: chance decides whether a run meets it, more often than not it does.
const tries = 20

// TestDefectsAreCaught by short random runs. The leader that is not verified needs rarer moments there: see the next test, and
// make raft-check.
func TestDefectsAreCaught(t *testing.T) {
	binary := buildSeeded(t)
	for defect, faults := range map[string][]Fault{
		"skip-applied-wait": nil,
		"claim-not-written": {Deafen},
	} {
		t.Run(defect, func(t *testing.T) {
			t.Parallel() // each has members of its own
			for seed := range uint64(tries) {
				if report := runSeed(t, binary, defect, seed, faults...); report.Linearizable == porcupine.Illegal {
					drawing, err := os.ReadFile(report.Drawing)
					require.NoError(t, err)
					require.Contains(t, string(drawing), "<html")
					return
				}
			}
			t.Fatalf("%d seeds found nothing wrong", tries)
		})
	}
}

// TestADeposedLeaderAnswersNoReads cuts off a leader whose lease is ten times as long as its followers' patience: it still takes
// itself for the leader while another one accepts writes. Only the confirmation by a majority keeps it from answering reads, and
// without that the checker finds stale ones.
func TestADeposedLeaderAnswersNoReads(t *testing.T) {
	require.Equal(t, porcupine.Ok, readFromDeposed(t, build(t, "raftkv"), ""))
	seeded := buildSeeded(t)
	for range tries {
		if readFromDeposed(t, seeded, "skip-verify") == porcupine.Illegal {
			return
		}
	}
	t.Fatal("nobody noticed that a leader is not verified")
}

// readFromDeposed writes through a new leader, reads from the one that was cut off, and returns what the checker says of it.
func readFromDeposed(t *testing.T, binary, defect string) porcupine.CheckResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*readyTimeout)
	defer cancel()
	c, err := cluster.Start(cluster.Config{
		Binary: binary, Folder: t.TempDir(), Members: members,
		Args: []string{"-heartbeat", "3s"}, Env: []string{"RAFTKV_DEFECT=" + defect},
	})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, ready(ctx, c))
	leader := -1
	for ; leader < 0; leader = c.Leader(ctx) {
		require.NoError(t, ctx.Err())
	}
	for i, m := range c.Members {
		if i != leader {
			c.Kill(i)
			m.Args = []string{"-heartbeat", "300ms"}
			require.NoError(t, c.Run(i))
			for follows := false; !follows; {
				require.NoError(t, ctx.Err())
				_, err := m.Client.Get(ctx, "first", time.Second)
				follows = err == nil
			}
		}
	}
	h, tally := newHistory(), &Tally{}
	newCaller := func(i int) *caller {
		return &caller{number: i, random: rand.New(rand.NewPCG(0, uint64(i))), history: h, tally: tally, hangUp: hangUp}
	}
	newCaller(0).put(ctx, c.Members[leader].Client, "k")
	c.Isolate(leader)
	before := tally.Written.Load()
	for writer := newCaller(1); tally.Written.Load() == before; {
		require.NoError(t, ctx.Err())
		writer.put(ctx, c.Members[(leader+1)%members].Client, "k")
	}
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() { newCaller(2+i).get(ctx, c.Members[leader].Client, "k") })
	}
	readers.Wait()
	require.Empty(t, h.mu.wrong)
	result, err := decide(h.relevant(), "")
	require.NoError(t, err)
	t.Logf("%d reads answered by the deposed leader, %d refused", tally.Read.Load(), tally.NotRead.Load())
	return result
}
