// Neighbours measures the library where somebody who considers it measures first: one wait and one wake, many equal
// waiters, far waiters, waits that are given up, one of many, a herd. Each shape runs on the library, on the same thing
// written by hand, and on what other servers have for it, taken from their published modules:
//
//	make neighbours
//
// It prints one table in markdown, for docs/benchmarks.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/bench/result"
)

// plan is how much is measured.
type plan struct {
	rounds int
	window time.Duration // for each figure in each round
	only   *regexp.Regexp
	crowd  int // equal waiters
	many   int // waiters of the largest crowds
}

func main() {
	rounds := flag.Int("rounds", 3, "how often each figure is measured, interleaved; the table has medians")
	window := flag.Duration("window", 100*time.Millisecond, "how long a loop is measured each time")
	pattern := flag.String("only", "", "measure only the shapes whose name matches this `regexp`")
	flag.Parse()
	only, err := regexp.Compile(*pattern)
	if err == nil && (flag.NArg() > 0 || *rounds < 1 || *window < time.Millisecond) {
		err = fmt.Errorf("no arguments, at least one round, and a window of at least 1ms; see -h")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "neighbours:", err)
		os.Exit(2)
	}
	start := time.Now()
	run(os.Stdout, os.Stderr, plan{rounds: *rounds, window: *window, only: only, crowd: 1000, many: 100_000})
	fmt.Printf("\n%s, %s/%s, GOMAXPROCS %d, medians of %d rounds, %.0f s.\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), *rounds, time.Since(start).Seconds())
}

// run measures every peer of a shape in turn, round after round, and prints the table.
func run(out, progress io.Writer, p plan) {
	set := new(result.Set)
	var measured []shape
	for _, s := range shapes(p) {
		if p.only != nil && !p.only.MatchString(s.name) {
			continue
		}
		measured = append(measured, s)
		fmt.Fprintln(progress, s.name)
		for round := range p.rounds {
			for _, x := range s.peers {
				runtime.GC()
				set.Add(result.Sample{Workload: s.name, Peer: x.id(), Round: round, Metrics: x.measure(p.window)})
			}
		}
	}
	writeTable(out, set, measured)
}
