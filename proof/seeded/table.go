package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// table counts verdicts by kind and package.
type table struct{ caught, all map[[2]string]int }

func (t *table) add(v verdict) {
	if t.all == nil {
		t.caught, t.all = map[[2]string]int{}, map[[2]string]int{}
	}
	at := [2]string{v.defect.kind, v.defect.in()}
	t.all[at]++
	if v.status == caught {
		t.caught[at]++
	}
}

// String has a line for each kind: how many of its defects were caught in each package.
func (t *table) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		var parts []string
		for at, n := range t.all {
			if at[0] == kind {
				parts = append(parts, fmt.Sprintf("%s %d/%d", at[1], t.caught[at], n))
			}
		}
		if len(parts) > 0 {
			slices.Sort(parts)
			fmt.Fprintf(&b, "%-10s %s: %s\n", kind, kinds[kind], strings.Join(parts, ", "))
		}
	}
	return b.String()
}
