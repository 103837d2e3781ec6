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
	"slices"
	"time"

	"github.com/delayedop/purgatory/bench/result"
)

// plan is how much is measured.
type plan struct {
	rounds uint
	window time.Duration // for each figure in each round
	only   regexp.Regexp
	crowd  int // equal waiters
	many   int // waiters of the largest crowds
	least  bool
}

func main() {
	p := plan{crowd: 1000, many: 100_000}
	flag.UintVar(&p.rounds, "rounds", 3, "how often each figure is measured, interleaved; the table has medians")
	flag.DurationVar(&p.window, "window", 100*time.Millisecond, "how long a loop is measured each time")
	flag.TextVar(&p.only, "only", regexp.MustCompile(""), "measure only the shapes whose name matches this `regexp`")
	flag.BoolVar(&p.least, "least", false, "show the least of the rounds instead of their median, except for memory, as on a machine that does other work")
	flag.Parse()
	if flag.NArg() > 0 || p.rounds == 0 {
		fmt.Fprintln(os.Stderr, "neighbours: no arguments, and at least one round; see -h")
		os.Exit(2)
	}
	start := time.Now()
	run(os.Stdout, os.Stderr, p)
	shown := "medians"
	if p.least {
		shown = "the least"
	}
	fmt.Printf("\n%s, %s/%s, GOMAXPROCS %d, %s of %d rounds, %.0f s.\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), shown, p.rounds, time.Since(start).Seconds())
}

// run measures every peer of a shape in turn, round after round, and prints the table.
func run(out, progress io.Writer, p plan) {
	set := new(result.Set)
	measured := slices.DeleteFunc(shapes(p), func(s shape) bool { return !p.only.MatchString(s.name) })
	for _, s := range measured {
		fmt.Fprintln(progress, s.name)
		for round := range p.rounds {
			for _, x := range s.peers {
				runtime.GC()
				set.Add(result.Sample{Workload: s.name, Peer: x.id(), Round: int(round), Metrics: x.measure(p.window)})
			}
		}
	}
	writeTable(out, figures{set, p.least}, measured)
}
