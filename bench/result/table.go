package result

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Heading says of a workload what its tables show.
type Heading struct {
	Title string   // what it measures, in a few words
	Bases []string // the peers that ratios are taken to
	Ratio string   // the metric that they are taken of
}

// WriteTables prints a table for every workload and set of parameters: a row per peer, median ± spread of every metric,
// and the ratio to each of the base peers in the same round. Where a base was not measured there is no ratio to it.
func (s *Set) WriteTables(w io.Writer, headings map[string]Heading) error {
	for _, workload := range Unique(s.Samples, func(x Sample) (string, bool) { return x.Workload, true }) {
		h := headings[workload]
		if _, err := fmt.Fprintf(w, "\n%s  %s (ratios of %s)\n", workload, h.Title, h.Ratio); err != nil {
			return err
		}
		params := Unique(s.Samples, func(x Sample) (string, bool) { return x.Params, x.Workload == workload })
		for _, p := range params {
			if err := s.writeTable(w, workload, p, h); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Set) writeTable(w io.Writer, workload, params string, h Heading) error {
	in := func(x Sample) bool { return x.Workload == workload && x.Params == params }
	peers := Unique(s.Samples, func(x Sample) (string, bool) { return x.Peer, in(x) })
	metrics := map[string]float64{}
	for _, x := range s.Samples {
		if in(x) {
			for u := range x.Metrics {
				metrics[u] = 0
			}
		}
	}
	units := ordered(metrics)
	if len(units) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 2, 1, 2, ' ', tabwriter.AlignRight)
	head := []string{params}
	bases := slices.DeleteFunc(slices.Clone(h.Bases), func(base string) bool {
		st, ok := s.Stat(workload, params, base, h.Ratio)
		return !ok || st.Median == 0
	})
	for _, base := range bases {
		head = append(head, "x "+base)
	}
	fmt.Fprintf(t, "%s\t\n", strings.Join(append(head, units...), "\t"))
	for _, peer := range peers {
		cells := []string{peer}
		for _, base := range bases {
			ratio := "-"
			if r, ok := s.Ratio(workload, params, peer, h.Ratio, base); ok {
				ratio = fmt.Sprintf("%.2f", r)
			}
			cells = append(cells, ratio)
		}
		for _, u := range units {
			cells = append(cells, s.cell(workload, params, peer, u))
		}
		fmt.Fprintf(t, "%s\t\n", strings.Join(cells, "\t"))
	}
	return t.Flush()
}

func (s *Set) cell(workload, params, peer, unit string) string {
	st, ok := s.Stat(workload, params, peer, unit)
	switch {
	case !ok:
		return "-"
	case st.Rounds == 1 || st.Median == 0:
		return number(st.Median)
	default:
		return fmt.Sprintf("%s ±%.0f%%", number(st.Median), st.Spread())
	}
}
