package result

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"
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
	measured := slices.DeleteFunc(slices.Clone(units), func(unit string) bool {
		return !slices.ContainsFunc(s.Samples, func(x Sample) bool {
			_, has := x.Metrics[unit]
			return has && in(x)
		})
	})
	bases := slices.DeleteFunc(slices.Clone(h.Bases), func(base string) bool {
		st, ok := s.Stat(workload, params, base, h.Ratio)
		return !ok || st.Median == 0
	})
	t := tabwriter.NewWriter(w, 2, 1, 2, ' ', tabwriter.AlignRight)
	head := []string{params}
	for _, base := range bases {
		head = append(head, "x "+base)
	}
	fmt.Fprintf(t, "%s\t\n", strings.Join(append(head, measured...), "\t"))
	for _, peer := range Unique(s.Samples, func(x Sample) (string, bool) { return x.Peer, in(x) }) {
		cells := []string{peer}
		for _, base := range bases {
			ratio := "-"
			if r, ok := s.Ratio(workload, params, peer, h.Ratio, base); ok {
				ratio = fmt.Sprintf("%.2f", r)
			}
			cells = append(cells, ratio)
		}
		for _, unit := range measured {
			cells = append(cells, s.cell(workload, params, peer, unit))
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
		return Figure(st.Median)
	default:
		return fmt.Sprintf("%s ±%.0f%%", Figure(st.Median), st.Spread())
	}
}

// Figure is v with three significant digits and at most three decimals, and commas between thousands.
func Figure(v float64) string {
	// number.Precision would print 99,992 as 10,000.
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		panic(err) // it was formatted a moment ago
	}
	return message.NewPrinter(language.English).Sprint(number.Decimal(rounded))
}
