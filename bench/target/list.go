package target

import (
	"fmt"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
	"github.com/delayedop/purgatory/bench/workload"
)

// All lists the targets.
func All() []Target {
	var all []Target
	all = append(all, timerTargets()...)
	all = append(all, lifeTargets()...)
	return append(all, operationTargets()...)
}

func timerTargets() []Target {
	var out []Target
	million := func(g int, peer string) at { return at{"T1", fmt.Sprintf("G=%d/P=1000000", g), peer} }
	empty := func(g int, peer string) at { return at{"T1", fmt.Sprintf("G=%d/P=0", g), peer} }
	for _, g := range []int{1, 2} {
		entry, handle, std := million(g, timers.Entry), million(g, timers.Handle), million(g, timers.Std)
		out = append(out,
			ratio("caller's entry / stdlib", entry, std, result.NsOp, 0.40),
			atMost("caller's entry, allocations", entry, result.AllocsOp, 0.01),
			ratio("handle / stdlib", handle, std, result.NsOp, 0.60),
			atMost("handle, allocations", handle, result.AllocsOp, 1.01),
			ratio("caller's entry / itself at P=0", entry, empty(g, timers.Entry), result.NsOp, 1.25),
			ratio("handle / itself at P=0", handle, empty(g, timers.Handle), result.NsOp, 1.25),
		)
	}
	const gain = "throughput / that of G=1, caller's entry"
	out = append(out,
		scaling(gain, empty(2, timers.Entry), empty(1, timers.Entry), 1.7),
		scaling(gain, million(2, timers.Entry), million(1, timers.Entry), 1.7))
	for _, t2 := range []struct {
		n   int
		p99 float64
	}{{100_000, 2.5}, {1_000_000, 8}} {
		params := fmt.Sprintf("G=1/N=%d", t2.n)
		entry := at{"T2", params, timers.Entry}
		handle := at{"T2", params, timers.Handle}
		out = append(out,
			never("early, caller's entry", entry, result.EarlyN, 0),
			never("early, handle", handle, result.EarlyN, 0),
			atMost("p99 ms, caller's entry", entry, result.LateP99, t2.p99),
			atMost("p99 ms, handle", handle, result.LateP99, t2.p99),
			never("goroutines beside the idle ones, caller's entry", entry, result.Routines, 64),
			never("goroutines beside the idle ones, handle", handle, result.Routines, 64),
		)
	}
	big := "G=1/N=1000000"
	return append(out,
		ratio("CPU, caller's entry / heap+mutex", at{"T2", big, timers.Entry}, at{"T2", big, timers.Heap}, result.CPUSec, 0.6),
		ratio("CPU, handle / heap+mutex", at{"T2", big, timers.Handle}, at{"T2", big, timers.Heap}, result.CPUSec, 0.6),
		atMost("bytes, caller's entry", at{"T3", "N=1000000", timers.Entry}, result.Bytes, 64),
		atMost("bytes, handle", at{"T3", "N=1000000", timers.Handle}, result.Bytes, 96),
		atMost("bytes, caller's entry", at{"T4", "N=1000000", timers.Entry}, result.Retained, 0.5),
		atMost("bytes, handle", at{"T4", "N=1000000", timers.Handle}, result.Retained, 0.5),
	)
}

func lifeTargets() []Target {
	ours := func(w, params string) at { return at{w, params, purgatories.Ours} }
	among := func(g, others int) at { return ours("P3", fmt.Sprintf("G=%d/P=%d", g, others)) }
	var out []Target
	for _, heap := range []string{workload.HeapParam(workload.Heap), ""} { // the realistic one first
		one, two := "G=1"+heap, "G=2"+heap
		out = append(out,
			ratio("ours / stdlib alone", ours("P1", one), at{"P1", one, timers.Alone}, result.NsOp, 0.75),
			ratio("ours / cb", ours("P1", one), at{"P1", one, purgatories.CB}, result.NsOp, 0.55),
			ratio("ours / chan", ours("P1", one), at{"P1", one, purgatories.Chan}, result.NsOp, 0.15),
			ratio("ours / stdlib alone", ours("P2", one), at{"P2", one, timers.Alone}, result.NsOp, 1.15),
			scaling("throughput / that of G=1", ours("P1", two), ours("P1", one), 1.2),
			scaling("throughput / that of G=1", ours("P2", two), ours("P2", one), 1.2),
			atMost("allocations", ours("P1", one), result.AllocsOp, 1.01),
			atMost("allocations", ours("P2", one), result.AllocsOp, 2.01),
		)
	}
	return append(out,
		ratio("ours / itself at P=0, which is P2", among(1, 1_000_000), among(1, 0), result.NsOp, 1.15),
		ratio("ours / itself at P=0, which is P2", among(2, 1_000_000), among(2, 0), result.NsOp, 1.15),
		never("stale watched entries", ours("P3", "G=2/P=1000000/watched"), result.StalePeak, 1000),
	)
}

func operationTargets() []Target {
	ours := func(w, params string) at { return at{w, params, purgatories.Ours} }
	p8, p6 := ours("P8", "G=1/P=1000000"), ours("P6", "G=1/N=1000000")
	out := []Target{
		never("early", p8, result.EarlyN, 0),
		atMost("p99 ms", p8, result.LateP99, 3),
	}
	for _, mix := range []string{"20-60ms", "200-400ms"} {
		out = append(out, atLeast("requests/s", ours("P4", "mix="+mix+"/highest"), result.Held, 0.99*1_000_000))
		for _, rate := range []int{20_000, 50_000, 100_000, 200_000} {
			params := fmt.Sprintf("mix=%s/rate=%d", mix, rate)
			out = append(out, ratio("CPU per request / cb", ours("P4", params), at{"P4", params, purgatories.CB}, result.CPUOp, 0.5))
		}
	}
	return append(out,
		atMost("bytes", ours("P5", "keys=1/N=1000000"), result.Bytes, 128),
		atMost("bytes", ours("P5", "keys=3/N=1000000"), result.Bytes, 208),
		never("early", p6, result.EarlyN, 0),
		atMost("p99 ms", p6, result.LateP99, 10),
		ratio("CPU / cb", p6, at{"P6", "G=1/N=1000000", purgatories.CB}, result.CPUSec, 0.4),
		atMost("CPU ms/s", ours("P7", "N=1000000"), result.CPUIdle, 1),
		ratio("N=1000000 / N=100, ordered step", at{"H1", "N=1000000", "ours-ordered"}, at{"H1", "N=100", "ours-ordered"}, result.NsStep, 2),
	)
}
