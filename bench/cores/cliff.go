package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// crowd is a purgatory with a key under which many operations wait, for positions of a log. They were registered in random
// order of address, and there are more of them than the caches hold: so those that a check ends are cold.
type crowd struct {
	p       *purgatory.Purgatory[string]
	log     atomic.Int64
	backlog int64
}

// crowdBatch is how many operations end with a check, as many as a walk takes in one step.
const crowdBatch = 128

const hotKey = "hot"

// hotOp waits for the log to reach its position.
type hotOp struct {
	operation.DelayedOperation
	position int64
	crowd    *crowd
}

func (o *hotOp) TryComplete() bool { return o.position <= o.crowd.log.Load() }
func (*hotOp) OnComplete()         {}
func (*hotOp) OnExpiration()       {}

func newCrowd(backlog int) *crowd {
	p, err := purgatory.New[string]("crowd")
	must(err)
	c := &crowd{p: p, backlog: int64(backlog)}
	ops := make([]hotOp, backlog)
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(backlog) {
		c.submit(&ops[at], int64(i+1))
	}
	return c
}

func (c *crowd) submit(op *hotOp, position int64) {
	op.position, op.crowd = position, c
	_, err := c.p.TryCompleteElseWatchAt(op, time.Minute, purgatory.KeyPosition[string]{Key: hotKey, Position: position})
	must(err)
}

// register registers one that no check ends.
func (c *crowd) register() *hotOp {
	op := new(hotOp)
	c.submit(op, c.backlog+1)
	return op
}

// check ends the next batch. It reports whether there is more.
func (c *crowd) check() bool {
	c.p.CheckAndCompleteUpTo(hotKey, c.log.Add(crowdBatch))
	return c.log.Load()+crowdBatch <= c.backlog
}

func (c *crowd) end() {
	c.p.CancelForKey(hotKey, nil)
	must(c.p.Close())
}

// cliff is what goroutines see that register, cancel and complete operations beside checks that end a crowd.
type cliff struct {
	took      []time.Duration // of each registration in a slice that counts
	checks    int             // in these
	slices    int
	handOvers float64 // of the shard's lock, for a registration
	starving  int     // registrations after which it is in starvation mode
	all       int     // registrations, whether they count or not
	waiters   int32   // the most that were seen
}

// registration is one of them.
type registration struct{ begun, took time.Duration }

// measure adds a window to f.
func (f *cliff) measure(goroutines int, d time.Duration) {
	c := newCrowd(600_000)
	defer c.end()
	lock := shardLock(c.p)
	runtime.SetMutexProfileFraction(1)
	defer runtime.SetMutexProfileFraction(0)
	var (
		mu     sync.Mutex
		all    []registration
		checks []time.Duration
		before = contended("watchers.(*Shard")
	)
	// Goroutines that register stand in for each other.
	w := aWindow(goroutines+1, d, func(worker int) int { return min(worker, 1) }, func(worker int, s *stream) {
		if worker == 0 {
			for s.more(1) && c.check() {
				checks = append(checks, time.Since(s.begun))
			}
			s.over.Store(true) // the crowd has gone
			return
		}
		mine, starved, most := make([]registration, 0, 1<<12), 0, int32(0)
		for s.more(1) {
			begun := time.Since(s.begun)
			op := c.register()
			mine = append(mine, registration{begun, time.Since(s.begun) - begun})
			state := lock.state.Load()
			if state&lockStarving != 0 {
				starved++
			}
			most = max(most, state>>lockWaiters)
			if len(mine)%2 == 0 {
				c.p.Cancel(op, nil)
			} else {
				c.p.ForceComplete(op)
			}
			if goroutines > 1 { // as a goroutine does that reads its next request
				runtime.Gosched()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, mine...)
		f.starving, f.waiters = f.starving+starved, max(f.waiters, most)
	})
	for _, r := range all {
		if w.counts[int64(r.begun/slice)] {
			f.took = append(f.took, r.took)
		}
	}
	for _, at := range checks {
		if w.counts[int64(at/slice)] {
			f.checks++
		}
	}
	f.slices += len(w.rates)
	f.all += len(all)
	f.handOvers += float64(contended("watchers.(*Shard") - before)
}

// measureCliff measures until there are enough slices, for a time at most.
func measureCliff(goroutines int, d, most time.Duration) (f cliff) {
	for begun := time.Now(); time.Since(begun) < most && f.slices < 4*enough; {
		f.measure(goroutines, d)
	}
	slices.Sort(f.took)
	return f
}

// writeCliff prints the curve from one goroutine to 200.
func writeCliff(w io.Writer, d, most time.Duration, counts ...int) {
	fmt.Fprintf(w, "%10s %12s %9s %9s %9s %9s %12s %9s %8s %7s\n", "goroutines", "registered/s", "checks/s", "p50", "p99", "p99.9", "hand-overs/s", "starving", "waiters", "slices")
	for _, g := range counts {
		f := measureCliff(g, d, most)
		seconds := float64(f.slices) * slice.Seconds()
		rate := float64(len(f.took)) / seconds
		fmt.Fprintf(w, "%10d %12.0f %9.0f %9s %9s %9s %12.0f %8.2f%% %8d %7d\n", g, rate, float64(f.checks)/seconds,
			short(meter.Quantile(f.took, 0.5)), short(meter.Quantile(f.took, 0.99)), short(meter.Quantile(f.took, 0.999)),
			f.handOvers/float64(f.all)*rate, 100*float64(f.starving)/float64(f.all), f.waiters, f.slices)
	}
}
