package target

import (
	"fmt"
	"io"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

// WriteMarkdown writes what the page on benchmarks says of a run: what it ran on, the targets, and where peers are better.
func WriteMarkdown(w io.Writer, set *result.Set) error {
	a := set.About
	fmt.Fprintf(w, "Measured %s on %s (%s processors, %s/%s) with %s; %s rounds, windows of %s; it took %s.\n\n",
		a["date"], a["cpu"], a["procs"], a["goos"], a["goarch"], a["go"], a["rounds"], a["window"], a["took"])
	fmt.Fprint(w, "| workload | target | measured | |\n| --- | --- | --- | --- |\n")
	for _, x := range All() {
		got, v := x.Check(set)
		said := v.String()
		if v == NotMet {
			said = "**" + said + "**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", x.Workload, x.What, got, said)
	}
	fmt.Fprint(w, "\n### Where a peer is better\n\nEvery median of this run that is lower than that of our best form by more than 3 %:\n\n")
	for _, b := range set.WherePeersAreBetter(references...) {
		fmt.Fprintf(w, "- %s\n", b)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// references are measured to be held against, and are no alternatives.
var references = []string{purgatories.Alone, "floor", purgatories.Null}
