package target

import (
	"fmt"
	"io"
	"strings"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// WriteMachine writes what a run ran on.
func WriteMachine(w io.Writer, set *result.Set) error {
	a := set.About
	_, err := fmt.Fprintf(w, "Measured %s on %s (%s processors, %s/%s) with %s by `make bench-complete`: %s rounds, windows of %s; it took %s.\n\n",
		a["date"], a["cpu"], a["procs"], a["goos"], a["goarch"], a["go"], a["rounds"], a["window"], a["took"])
	return err
}

// WriteMarkdown writes what the notes say of a run: what it ran on, the targets, and where peers are better.
func WriteMarkdown(w io.Writer, set *result.Set) error {
	if err := WriteMachine(w, set); err != nil {
		return err
	}
	fmt.Fprint(w, "| workload | target | measured | |\n| --- | --- | --- | --- |\n")
	for _, x := range All() {
		got, v := x.Check(set)
		said := v.String()
		if v == NotMet {
			said = "**" + said + "**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", x.Workload, x.What, got, said)
	}
	fmt.Fprintf(w, "\n### Where a peer is better\n\nEvery median of this run in %s that is lower by more than 3 %% than that of the best of our forms, "+
		"or than that of our handles, which are used as `AfterFunc` is. Not listed are %s: references, which do a part of the work.\n\n",
		strings.Join(result.Weighed, ", "), strings.Join(references, ", "))
	for _, b := range set.WherePeersAreBetter([]string{timers.Handle}, references) {
		fmt.Fprintf(w, "- %s\n", b)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// references are measured to be held against, and are no alternatives.
var references = []string{timers.Alone, purgatories.Timers, "floor", purgatories.Null}
