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

// Workload says what the tables of a workload show.
type Workload struct {
	Name  string
	Title string   // what it measures, in a few words
	Bases []string // the peers that ratios are taken to, the standard library's first
	Ratio string   // the metric that they are taken of
}

// WriteTables prints a table for every workload that was measured and every set of parameters: a row per peer, median ±
// spread of every metric, and the ratio to each of the base peers in the same round. Where a base was not measured there
// is no ratio to it.
func (s *Set) WriteTables(w io.Writer, workloads []Workload) error {
	for _, of := range workloads {
		params := Unique(s.Samples, func(x Sample) (string, bool) { return x.Params, x.Workload == of.Name })
		if len(params) > 0 {
			fmt.Fprintf(w, "\n%s  %s (ratios of %s)\n", of.Name, of.Title, of.Ratio)
		}
		for _, p := range params {
			if err := s.writeTable(w, of, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Set) writeTable(w io.Writer, of Workload, params string) error {
	in := func(x Sample) bool { return x.Workload == of.Name && x.Params == params }
	measured := slices.DeleteFunc(slices.Clone(units), func(unit string) bool {
		return !slices.ContainsFunc(s.Samples, func(x Sample) bool {
			_, has := x.Metrics[unit]
			return has && in(x)
		})
	})
	bases := slices.DeleteFunc(slices.Clone(of.Bases), func(base string) bool {
		st, ok := s.Stat(of.Name, params, base, of.Ratio)
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
			if r, ok := s.Ratio(of.Name, params, peer, of.Ratio, base); ok {
				ratio = fmt.Sprintf("%.2f", r)
			}
			cells = append(cells, ratio)
		}
		for _, unit := range measured {
			cells = append(cells, s.cell(of.Name, params, peer, unit))
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
	// number.Precision would print 99,992 as 10,000. What has just been formatted parses.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return message.NewPrinter(language.English).Sprint(number.Decimal(rounded))
}
