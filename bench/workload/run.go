// Package workload holds what is measured: one file per workload or family of them.
//
// A workload interleaves its peers: in each round every peer has one turn, on a world made for it, so that what disturbs
// the machine for a while disturbs all. The program gives each turn a process of its own, which ends with the turn: nobody
// takes apart what it has made.
package workload

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// Run is one run of the benchmark program. Without a window it is a trial, which shows that workloads run, and measures
// nothing: a loop does one chunk in each of its slices, what expires does so within milliseconds, and nothing is waited for.
type Run struct {
	Rounds   int           // how often a peer is measured in each workload; 0: as often as is usual there
	Window   time.Duration // how long a loop is measured; 0: a trial, see below
	Quick    bool          // only the essentials
	Million  int           // what stands for "1,000,000 pending"; smaller in tests
	Heap     int           // bytes of live heap beside P1 and P2; smaller in tests
	Set      *result.Set
	Progress io.Writer

	// Apart measures the n-th turn of this family of workloads in a process of its own; nil: all are measured in this one.
	//
	// A heap can be thrown away and collected, but what the runtime keeps of a million goroutines cannot: each later cycle
	// of the collector looks at all of them, 0.4 s of processor time for those that a peer starts when as many timers
	// expire at once. Whoever is measured next would pay for that.
	Apart func(n int) (*result.Set, error)
	// Only is the one turn to take, counted from 1; 0: all.
	Only int

	turns int
	err   error
}

// Million is what the workloads call "1,000,000 pending".
const Million = 1_000_000

// Heap is the live heap that P1 and P2 have beside them, as a server has: with a few megabytes the collector would run
// after every few megabytes of garbage, which is a hundred times a second.
const Heap = 128 << 20

// Measure takes the turns of f.
func (r *Run) Measure(f Family) error {
	r.turns = 0
	f.run(r)
	return r.err
}

// each has every peer take a turn in every round.
func (r *Run) each(what string, rounds int, peers []string, measure func(round int, peer string)) {
	for round := range rounds {
		for _, peer := range peers {
			r.turn(fmt.Sprintf("%s  round %d of %d  %s", what, round+1, rounds, peer), func() { measure(round, peer) })
		}
	}
}

// turn is a part of a family's workloads that needs a world of its own: measure makes it and adds samples. Which turns
// there are, and in which order, does not depend on what was measured.
func (r *Run) turn(what string, measure func()) {
	r.turns++
	switch {
	case r.err != nil || r.Only != 0 && r.Only != r.turns:
	case r.Apart == nil:
		measure()
	default:
		fmt.Fprintf(r.Progress, "%s  %s\n", time.Now().Format(time.TimeOnly), what)
		set, err := r.Apart(r.turns)
		if err != nil {
			r.err = fmt.Errorf("%s: %w", what, err)
			return
		}
		r.Set.Samples = append(r.Set.Samples, set.Samples...)
	}
}

// longRounds is how many rounds there are of what takes seconds, or has no noise to speak of: two, and one if only the
// essentials are asked for.
func (r *Run) longRounds() int {
	if r.Quick {
		return 1
	}
	return cmp.Or(r.Rounds, 2)
}

// timers are the peers of the workloads of timers.
func (r *Run) timers() []string {
	if r.Quick {
		return []string{timers.Entry, timers.Std}
	}
	return []string{timers.Entry, timers.Handle, timers.Std, timers.RussellLuo}
}

// operations are the peers of a workload of operations: in a quick run those that are named.
func (r *Run) operations(quick ...string) []string {
	if r.Quick {
		return quick
	}
	return []string{purgatories.Ours, purgatories.Timers, purgatories.CB, purgatories.Chan}
}

func (r *Run) add(workload, params, peer string, round int, n int64, metrics map[string]float64) {
	r.Set.Add(result.Sample{
		Workload: workload, Params: params, Peer: peer, Round: round, N: n, Metrics: metrics,
	})
}

func (r *Run) addRate(workload, params, peer string, round int, m meter.Rate) {
	r.add(workload, params, peer, round, m.Ops, result.PerOp(m))
}

// addLate adds a sample of what a lateness record says.
func (r *Run) addLate(workload, params, peer string, round int, late *meter.Lateness, into map[string]float64) {
	r.lost(peer, late.Left(), into)
	sorted := late.Sorted()
	ms := result.Milliseconds
	into[result.LateP50] = ms(meter.Quantile(sorted, 0.50))
	into[result.LateP99] = ms(meter.Quantile(sorted, 0.99))
	into[result.LateMax] = ms(meter.Quantile(sorted, 1))
	into[result.EarlyN] = float64(meter.Early(sorted))
	into[result.EarlyMax] = max(0, -ms(meter.Quantile(sorted, 0)))
	r.add(workload, params, peer, round, int64(len(sorted)), into)
}

// lost notes deadlines that were never met, which no percentile shows. The library owes every one: for it that is an error.
func (r *Run) lost(peer string, missing int, into map[string]float64) {
	if missing == 0 {
		return
	}
	into[result.Lost] = float64(missing)
	if strings.HasPrefix(peer, purgatories.Ours) {
		r.err = fmt.Errorf("%s: %d deadlines were never met", peer, missing)
	}
}

// rest returns when a peer has done what it puts off when many come at once: the library's clock places a second later
// what is far from due.
func rest(peer any) {
	p, ok := peer.(interface{ AtRest() bool })
	for ok && !p.AtRest() {
		time.Sleep(10 * time.Millisecond)
	}
}

// rest is the function rest, for which a trial has no time.
func (r *Run) rest(peer any) {
	if r.Window > 0 {
		rest(peer)
	}
}

// random returns a generator that draws the same numbers in every run.
func random(stream int) *rand.Rand { return rand.New(rand.NewPCG(1441, uint64(stream))) }

// deadlines are the delays of what expires while a run waits for it.
func (r *Run) deadlines(stream, n int, low, high time.Duration) []time.Duration {
	if r.Window == 0 {
		low, high = time.Millisecond, 2*time.Millisecond
	}
	return delays(stream, n, low, high)
}

// delays returns durations drawn uniformly from [low, high).
func delays(stream, n int, low, high time.Duration) []time.Duration {
	rng := random(stream)
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = low + time.Duration(rng.Int64N(int64(high-low)))
	}
	return out
}
