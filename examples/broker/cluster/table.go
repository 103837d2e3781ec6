package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/delayedop/purgatory/operation"
)

// Table shows what waited in each purgatory, and how it ended.
func (c *Cluster) Table() string {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "purgatory\taccepted\t")
	outcomes := []operation.Outcome{operation.Satisfied, operation.Expired, operation.Cancelled, operation.Forced, operation.Closed}
	for _, o := range outcomes {
		fmt.Fprintf(w, "%s\t", o)
	}
	fmt.Fprint(w, "pending\tchecks\twasted\t\n")
	stats := c.Stats()
	for _, name := range slices.Sorted(maps.Keys(stats)) {
		s := stats[name]
		fmt.Fprintf(w, "%s\t%d\t", name, s.Accepted)
		for _, o := range outcomes {
			fmt.Fprintf(w, "%d\t", s.Ended(o))
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t\n", s.Pending, s.Checks, s.WastedChecks)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return table.String()
}
