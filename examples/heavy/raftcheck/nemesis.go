package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/raftcheck/cluster"
)

// Fault is something that happens to a member.
type Fault string

// The faults.
const (
	Kill    Fault = "SIGKILL"
	Freeze  Fault = "SIGSTOP"
	Isolate Fault = "partition"
	Deafen  Fault = "replies lost"
	Late    Fault = "late member"
)

// nemesis does one thing after the other to the cluster. It owns it while it runs.
type nemesis struct {
	cluster *cluster.Cluster
	random  *rand.Rand
	faults  []Fault // to choose from
	tally   *Tally
	say     func(format string, args ...any)
	joined  chan int // is told of members that have joined
	done    map[Fault]int
}

// How long things last.
const (
	faultAtLeast = 800 * time.Millisecond
	faultAtMost  = 2500 * time.Millisecond
	calmAtMost   = 1500 * time.Millisecond
)

// run makes faults until ctx ends, and leaves everything healed and running.
func (n *nemesis) run(ctx context.Context) error {
	if n.sleep(ctx, n.between(0, calmAtMost)) {
		return nil
	}
	for len(n.faults) > 0 {
		fault := n.faults[n.random.IntN(len(n.faults))]
		if fault == Late {
			if err := n.addLate(ctx); err != nil {
				return err
			}
			n.faults = slices.DeleteFunc(slices.Clone(n.faults), func(f Fault) bool { return f == Late })
		} else if err := n.strike(ctx, fault, n.victim(ctx)); err != nil {
			return err
		}
		n.done[fault]++
		if err := n.cluster.Died(); err != nil {
			return err
		}
		if n.sleep(ctx, n.between(calmAtMost/3, calmAtMost)) {
			return nil
		}
	}
	return nil
}

// victim chooses a member: the leader, more often than not.
func (n *nemesis) victim(ctx context.Context) int {
	if n.random.IntN(10) < 7 {
		if leader := n.cluster.Leader(ctx); leader >= 0 {
			return leader
		}
	}
	for {
		if i := n.random.IntN(len(n.cluster.Members)); n.cluster.Runs(i) {
			return i
		}
	}
}

// strike does one thing to one member, and undoes it.
func (n *nemesis) strike(ctx context.Context, f Fault, i int) error {
	lasts := n.between(faultAtLeast, faultAtMost)
	n.say("%s: %s for %v", n.cluster.Members[i].ID, f, lasts.Round(time.Millisecond))
	switch f {
	case Kill:
		n.cluster.Kill(i)
		n.sleep(ctx, lasts)
		return n.cluster.Run(i)
	case Freeze:
		n.tally.frozen.Add(1)
		defer n.tally.frozen.Add(1)
		if err := n.cluster.Freeze(i); err != nil {
			return err
		}
		n.sleep(ctx, lasts)
		return n.cluster.Thaw(i)
	case Isolate:
		n.cluster.Isolate(i)
	case Deafen:
		n.cluster.Deafen(i)
	}
	n.sleep(ctx, lasts)
	n.cluster.Heal()
	return nil
}

// addLate starts a member that has not been there yet, and has it added.
func (n *nemesis) addLate(ctx context.Context) error {
	for i, m := range n.cluster.Members {
		if m.Started() {
			continue
		}
		if err := n.cluster.Run(i); err != nil {
			return err
		}
		leader := n.cluster.Leader(ctx)
		if leader < 0 {
			leader = 0
		}
		n.say("%s: started late, joins through %s", m.ID, n.cluster.Members[leader].ID)
		joining, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if err := n.cluster.Members[leader].Client.Join(joining, m.Member); err != nil {
			n.say("%s: not added yet: %v", m.ID, err)
		}
		n.joined <- i
	}
	return nil
}

func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.random.Int64N(int64(most-least)))
}

// sleep waits, and reports whether ctx has ended.
func (n *nemesis) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() != nil
}

func (f Fault) count(n int) string { return fmt.Sprintf("%d %s", n, f) }
