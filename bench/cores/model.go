package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/delayedop/purgatory/bench/cores/model"
)

// larger are the machines that are simulated, by their cores.
var larger = []int{8, 32, 128}

// writeModel calibrates the model with a matrix, says how far it is from what was measured with two processors, and prints
// what it says of larger machines, at length of the last.
func writeModel(w io.Writer, m matrix, larger ...int) {
	if m.Line == 0 && m.Processors > 1 {
		fmt.Fprintln(w, "the matrix does not say how fast a line moves: measure it again, on a machine that does nothing else")
		return
	}
	slow := 1.0
	one, _ := m.row("apart", 1)
	if two, ok := m.row("apart", 2); ok {
		slow = max(1, 2*one.Rate/two.Rate)
	}
	fmt.Fprintf(w, "%s, %s: a line moves in %.0f ns; work takes %.2f times as long if both processors have some\n\n", m.CPU, m.Go, m.Line, slow)
	fmt.Fprintf(w, "%-8s %6s | %s | %s\n", "", "1", "2: measured, model, error", strings.Trim(fmt.Sprint(larger), "[]")+": ratio to 1; p99 of a lock's wait; what is held most, and how long; cores that wait for lines")
	for _, l := range model.Loads() {
		name := l.Name
		if name == "crowd" { // of the operations of the hot key; the experiment is cliff
			name = "hot key"
		}
		one, ok := m.row(name, 1)
		if !ok {
			continue
		}
		costs := model.Parts(1e9 / one.Rate)
		base := l.Run(model.Here(1, m.Line, slow), costs)
		fmt.Fprintf(w, "%-8s %6.0f |", l.Name, 1e9/one.Rate)
		if two, ok := m.row(l.Name, 2); ok {
			measured, simulated := two.Rate/one.Rate, l.Run(model.Here(2, m.Line, slow), costs).Rate/base.Rate
			fmt.Fprintf(w, " %5.2f %5.2f %+4.0f%% |", measured, simulated, 100*(simulated/measured-1))
		}
		for _, cores := range larger {
			r := l.Run(model.EPYC(cores), costs)
			fmt.Fprintf(w, " %6.1f %7s %s %2.0f%% %2.0f%% |", r.Rate/base.Rate, short(nanoseconds(r.WaitP99)), r.Busiest, 100*r.Held, 100*r.Moving)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nstarving, in the experiment bare with two processors:")
	for _, hold := range bareHolds {
		fmt.Fprintf(w, "  %s %.0f%%", hold, 100*model.Bare{Hold: float64(hold), Gap: float64(bareGap), Think: float64(bareThink)}.Starving(model.Here(2, m.Line, slow)))
	}
	fmt.Fprintln(w)
	largest := larger[len(larger)-1]
	for _, shards := range []struct{ timer, watchers int }{{64, 1024}, {256, 1024}, {256, 4096}, {1024, 4096}} {
		fmt.Fprintf(w, "%d cores, %d shards of a timer and %d of a map:", largest, shards.timer, shards.watchers)
		for _, l := range model.Loads()[:3] {
			one, ok := m.row(l.Name, 1)
			if !ok {
				continue
			}
			costs := model.Parts(1e9 / one.Rate)
			costs.TimerShards, costs.Shards = func(int) int { return shards.timer }, func(int) int { return shards.watchers }
			fmt.Fprintf(w, "  %s %.1f", l.Name, l.Run(model.EPYC(largest), costs).Rate/one.Rate)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, `
The model is wrong if, on a machine of 8 processors or more,
  - make cores finds P1 with 8 processors of one group more than 15 % away from the ratio above;
  - make cores finds the hot key faster with 32 processors than with 8;
  - cores bare finds no waits of a millisecond at a hold of 10 µs.
`)
}

func nanoseconds(ns float64) time.Duration { return time.Duration(math.Round(ns)) }
