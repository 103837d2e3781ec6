// Package target holds what the library must reach, and checks it against what was measured.
package target

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/delayedop/purgatory/bench/result"
)

// Verdict is how a target stands.
type Verdict uint8

// The verdicts.
const (
	NotMeasured Verdict = iota
	Met
	NotMet
)

func (v Verdict) String() string {
	return [...]string{"not measured", "met", "NOT met"}[v]
}

// Target is one line of the table.
type Target struct {
	Workload string
	What     string
	Check    func(*result.Set) (got string, v Verdict)
}

// at names the samples of one peer.
type at struct{ workload, params, peer string }

func verdict(met bool) Verdict {
	if met {
		return Met
	}
	return NotMet
}

// atMost holds the median of a metric to a limit.
func atMost(what string, a at, metric string, limit float64) Target {
	return bound(what+fmt.Sprintf(" ≤ %g", limit), a, metric, func(s result.Stat) (float64, bool) {
		return s.Median, s.Median <= limit
	})
}

// never holds the worst round of a metric to a limit: for promises, which no median excuses.
func never(what string, a at, metric string, limit float64) Target {
	return bound(what+fmt.Sprintf(" ≤ %g in every round", limit), a, metric, func(s result.Stat) (float64, bool) {
		return s.Max, s.Max <= limit
	})
}

// atLeast holds the median of a metric to a lower limit.
func atLeast(what string, a at, metric string, limit float64) Target {
	return bound(what+fmt.Sprintf(" ≥ %g", limit), a, metric, func(s result.Stat) (float64, bool) {
		return s.Median, s.Median >= limit
	})
}

func bound(what string, a at, metric string, check func(result.Stat) (float64, bool)) Target {
	return Target{a.workload, fmt.Sprintf("%s, %s", a.params, what), func(s *result.Set) (string, Verdict) {
		st, ok := s.Stat(a.workload, a.params, a.peer, metric)
		if !ok {
			return "", NotMeasured
		}
		got, met := check(st)
		return fmt.Sprintf("%.4g", got), verdict(met)
	}}
}

// ratio holds the median of (a / base), taken round by round, to a limit.
func ratio(what string, a, base at, metric string, limit float64) Target {
	return compare(fmt.Sprintf("%s ≤ %.2f ×", what, limit), a, base, metric, func(r float64) bool { return r <= limit })
}

// scaling holds the gain in throughput from base to a to a lower limit.
func scaling(what string, a, base at, limit float64) Target {
	return Target{a.workload, fmt.Sprintf("%s, %s ≥ %.1f ×", a.params, what, limit), func(s *result.Set) (string, Verdict) {
		r, ok := s.RatioTo(base.workload, base.params, base.peer, result.NsOp, a.workload, a.params, a.peer, result.NsOp)
		if !ok {
			return "", NotMeasured
		}
		return fmt.Sprintf("%.2f ×", r), verdict(r >= limit)
	}}
}

func compare(what string, a, base at, metric string, met func(float64) bool) Target {
	return Target{a.workload, fmt.Sprintf("%s, %s", a.params, what), func(s *result.Set) (string, Verdict) {
		r, ok := s.RatioTo(a.workload, a.params, a.peer, metric, base.workload, base.params, base.peer, metric)
		if !ok {
			return "", NotMeasured
		}
		return fmt.Sprintf("%.2f ×", r), verdict(met(r))
	}}
}

// Write prints every target of the workloads that were measured, with what was reached.
func Write(w io.Writer, set *result.Set) error {
	t := tabwriter.NewWriter(w, 2, 1, 2, ' ', 0)
	fmt.Fprint(t, "\nTargets\n\tworkload\ttarget\tmeasured\t\n")
	met, missed := 0, 0
	for _, x := range All() {
		got, v := x.Check(set)
		switch v {
		case Met:
			met++
		case NotMet:
			missed++
		case NotMeasured:
			if !set.Has(x.Workload) {
				continue
			}
		}
		fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\n", x.Workload, x.What, got, v)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d met, %d NOT met, %d not measured\n", met, missed, len(All())-met-missed)
	return err
}
