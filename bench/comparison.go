package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// comparison is a line of the table that users compare by.
type comparison struct {
	what             string
	workload, params string
	metric           string
	ours, std        string // the peers' names in this workload
	stdOf            string // the workload of std's, if it is another one
	front            bool   // README has it, too
}

func comparisons() []comparison {
	const (
		ours, alone, others = purgatories.Ours, timers.Alone, purgatories.Timers
		million             = "G=1/P=1000000"
		heap                = "G=1/heap=128MB"
	)
	return []comparison{
		{"a request's life, 1 key, beside a live heap of 128 MB, ns", "P1", heap, result.NsOp, ours, alone, "", true},
		{"a request's life, 3 keys, beside a live heap of 128 MB, ns", "P2", heap, result.NsOp, ours, alone, "", false},
		{"a request's life, 1 key, in a small heap, ns", "P1", "G=1", result.NsOp, ours, alone, "", false},
		{"a request's life, 3 keys, in a small heap, ns", "P2", "G=1", result.NsOp, ours, alone, "", false},
		{"a request's life, 3 keys, among 1,000,000 others, ns", "P3", million, result.NsOp, ours, timers.Std, "T1", false},
		{"a step of a log that ends 10 of 1,000,000 waiters, ns", "H1", "N=1000000", result.NsStep, "ours-ordered", others, "", true},
		{"memory of a pending request, 1 key, bytes", "P5", "keys=1/N=1000000", result.Bytes, ours, others, "", true},
		{"memory of a pending request, 3 keys, bytes", "P5", "keys=3/N=1000000", result.Bytes, ours, others, "", false},
		{"p99 lateness when 1,000,000 time out within one second, ms", "P6", "G=1/N=1000000", result.LateP99, ours, others, "", true},
		{"p99 lateness beside a busy goroutine and 1,000,000 others, ms", "P8", million, result.LateP99, ours, others, "", false},
		{"highest rate held, 3 keys, requests/s", "P4", "mix=20-60ms/highest", result.Held, ours, others, "", true},
	}
}

// writeComparison writes what a run ran on, and the table that users compare by: the library, what they would write by
// hand, and the standard library's timer alone. Lines that were not measured are left out; without all, so are those that are not
// for the front page.
func writeComparison(w io.Writer, set *result.Set, all bool) {
	a := set.About
	fmt.Fprintf(w, "Measured %s, commit %s, on %s (%s processors, %s/%s) with %s by `make bench`: %s rounds, windows of %s; it took %s.\n\n",
		a["date"], a["commit"], a["cpu"], a["procs"], a["goos"], a["goarch"], a["go"], a["rounds"], a["window"], a["took"])
	fmt.Fprint(w, "| | purgatory | map + `AfterFunc` by hand | a goroutine each | `AfterFunc` alone, no keys |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, c := range comparisons() {
		if !all && !c.front {
			continue
		}
		cells := []string{c.what}
		add := func(workload, peer string) {
			cell := "–"
			if st, ok := set.Stat(workload, c.params, peer, c.metric); ok {
				cell = result.Figure(st.Median)
			}
			cells = append(cells, cell)
		}
		for _, peer := range []string{c.ours, purgatories.CB, purgatories.Chan} {
			add(c.workload, peer)
		}
		add(cmp.Or(c.stdOf, c.workload), c.std)
		if cells[1] != "–" {
			fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}
