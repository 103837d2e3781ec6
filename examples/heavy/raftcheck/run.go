package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/hashicorp/raft"

	"github.com/delayedop/purgatory/examples/heavy/raftcheck/client"
	"github.com/delayedop/purgatory/examples/heavy/raftcheck/cluster"
)

// Config says what to run.
type Config struct {
	Binary   string
	Folder   string // for the members' data; removed afterwards
	Drawings string // folder for drawings of histories that are not linearizable; "" for none
	Seed     uint64
	Duration time.Duration
	Clients  int
	Faults   []Fault // to choose from
	Defect   string  // that the members have; needs a binary built for that

	Say   func(format string, args ...any) // what happens, as it happens; nil for nobody
	Every func(Progress)                   // once a second; nil for nobody
}

// Progress is how a run stands.
type Progress struct {
	Elapsed time.Duration
	Calls   int64
	Leader  string
	Tally   *Tally
}

// Report is how a run ended.
type Report struct {
	Seed         uint64
	Tally        *Tally
	Faults       string
	Operations   int // that were checked
	Linearizable porcupine.CheckResult
	Drawing      string // a file, if it is not
	Left         int    // waits, after the last call has ended
	Restored     int64  // snapshots that members have taken over
	Wrong        error  // other promises that were not kept
}

// OK reports whether every promise was kept.
func (r *Report) OK() bool { return r.Linearizable == porcupine.Ok && r.Left == 0 && r.Wrong == nil }

// errNothing is what is wrong with a run in which nothing happened that could have shown anything.
var errNothing = errors.New("nothing was written, or nothing was read: the history shows nothing")

// AllFaults are those that a run chooses from if it is not told otherwise.
var AllFaults = []Fault{Kill, Freeze, Isolate, Deafen, Late}

// members is how many a cluster has at first.
const members = 3

// Run runs one cluster under one seed. The error is for what could not be run; what went wrong is in the report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	defer os.RemoveAll(cfg.Folder)
	late := 0
	if slices.Contains(cfg.Faults, Late) {
		late = 1
	}
	c, err := cluster.Start(cluster.Config{
		Binary: cfg.Binary, Folder: cfg.Folder, Members: members, Late: late,
		// Small numbers, so that a member that was away for two seconds is sent a snapshot.
		Args: []string{"-snapshot-threshold", "300", "-snapshot-interval", "400ms", "-trailing-logs", "40"},
		Env:  []string{"RAFTKV_DEFECT=" + cfg.Defect},
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := ready(ctx, c); err != nil {
		return nil, err
	}
	r := &trial{cfg: cfg, cluster: c, history: newHistory(), tally: &Tally{}}
	return r.run(ctx)
}

// readyTimeout is how long a cluster may take to accept its first write, or to become whole again.
const readyTimeout = time.Minute

// ready waits until the cluster accepts writes.
func ready(ctx context.Context, c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		_, err := c.Members[0].Client.Put(ctx, "first", "first", time.Second)
		if err == nil {
			return nil
		}
		if died := c.Died(); died != nil {
			return died
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the cluster accepts no writes: %w", err)
		}
	}
}

// trial is one run.
type trial struct {
	cfg     Config
	cluster *cluster.Cluster
	history *history
	tally   *Tally

	mu    sync.Mutex
	nodes []*client.Client // that clients call
}

func (r *trial) targets() []*client.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes
}

func (r *trial) addTarget(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(slices.Clone(r.nodes), r.cluster.Members[i].Client)
}

func (r *trial) run(ctx context.Context) (*Report, error) {
	for i := range members {
		r.addTarget(i)
	}
	joined := make(chan int, len(r.cluster.Members))
	foe := &nemesis{
		cluster: r.cluster, random: rand.New(rand.NewPCG(r.cfg.Seed, 0)), faults: r.cfg.Faults, tally: r.tally,
		say: r.cfg.Say, joined: joined, done: make(map[Fault]int),
	}
	lasting, cancel := context.WithTimeout(ctx, r.cfg.Duration)
	defer cancel()
	var wg sync.WaitGroup
	for i := range r.cfg.Clients {
		c := &caller{
			number: i, random: rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)+1)),
			nodes: r.targets, history: r.history, tally: r.tally, hangUp: hangUp,
		}
		if i%2 == 1 {
			c.hangUp = hangUpSoon
		}
		wg.Go(func() { c.run(lasting) })
	}
	wg.Go(func() { r.watchJoined(lasting, joined) })
	if r.cfg.Every != nil {
		wg.Go(func() { r.everySecond(lasting) })
	}
	struck := foe.run(lasting)
	if struck != nil {
		cancel()
	}
	wg.Wait()
	report := &Report{Seed: r.cfg.Seed, Tally: r.tally, Faults: faultCounts(foe.done), Wrong: struck}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.finish(ctx, report)
	return report, r.judge(report)
}

func (r *trial) watchJoined(ctx context.Context, joined <-chan int) {
	for {
		select {
		case i := <-joined:
			r.addTarget(i)
		case <-ctx.Done():
			return
		}
	}
}

func (r *trial) everySecond(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.cfg.Every(Progress{
				Elapsed: time.Since(r.history.start), Calls: r.tally.Done(), Leader: r.leader(ctx), Tally: r.tally,
			})
		case <-ctx.Done():
			return
		}
	}
}

// leader asks the members who leads, and returns what the first that knows says.
func (r *trial) leader(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	answers := make(chan string, len(r.targets()))
	for _, n := range r.targets() {
		go func() {
			s, err := n.Status(ctx)
			if err != nil || s.State != raft.Leader.String() {
				s.ID = ""
			}
			answers <- s.ID
		}()
	}
	for range cap(answers) {
		if id := <-answers; id != "" {
			return id
		}
	}
	return "-"
}
