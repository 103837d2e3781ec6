// Package chart draws the plots of a run.
package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"

	"github.com/delayedop/purgatory/bench/result"
)

// All draws every plot that the set has samples for into a folder, and removes the others from it.
func All(set *result.Set, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	charts := map[string]func(*result.Set) (*plot.Plot, error){
		"step-over-waiters.svg":   stepOverWaiters,
		"lateness-timers.svg":     lateness("1,000,000 timers expiring within a second", "T2", "G=1/N=1000000"),
		"lateness-operations.svg": lateness("1,000,000 operations expiring within a second", "P6", "G=1/N=1000000"),
		"lateness-probes.svg":     lateness("probes beside a busy purgatory with 1,000,000 pending", "P8", "G=1/P=1000000"),
	}
	for file, draw := range charts {
		path := filepath.Join(folder, file)
		p, err := draw(set)
		switch {
		case err != nil:
		case p != nil:
			err = save(p, path)
		default: // not measured in this run; one of an earlier run would be taken for it
			if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// stepOverWaiters is H1: what ten satisfied waiters cost over how many wait.
func stepOverWaiters(set *result.Set) (*plot.Plot, error) {
	curves := map[string]plotter.XYs{}
	for _, s := range set.Samples {
		n, err := strconv.Atoi(strings.TrimPrefix(s.Params, "N="))
		if st, ok := set.Stat("H1", s.Params, s.Peer, result.NsStep); ok && err == nil && s.Workload == "H1" && s.Round == 0 {
			curves[s.Peer] = append(curves[s.Peer], plotter.XY{X: float64(n), Y: st.Median})
		}
	}
	var lines []any // names, and their points
	for _, peer := range slices.Sorted(maps.Keys(curves)) {
		lines = append(lines, peer, curves[peer])
	}
	if lines == nil {
		return nil, nil
	}
	p := newPlot("A step of the log that satisfies 10 of N waiters", "N waiters", "ns per step")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plain{plot.LogTicks{Prec: -1}}
	p.Y.Scale, p.Y.Tick.Marker = p.X.Scale, p.X.Tick.Marker
	return p, plotutil.AddLinePoints(p, lines...)
}

// lateness is a cumulative distribution; early expiries lie left of zero.
func lateness(title, of, params string) func(*result.Set) (*plot.Plot, error) {
	return func(set *result.Set) (*plot.Plot, error) {
		p := newPlot("Lateness: "+title, "milliseconds after the exact deadline (cut at -20 and 50)", "share of expiries")
		var lines []any // names, and their points
		for _, d := range set.Distributions {
			if d.Workload != of || d.Params != params {
				continue
			}
			points := make(plotter.XYs, len(d.Ms))
			for i, ms := range d.Ms {
				points[i] = plotter.XY{X: min(max(ms, -20), 50), Y: float64(i) / float64(len(d.Ms)-1)}
			}
			lines = append(lines, d.Peer, points)
		}
		if lines == nil {
			return nil, nil
		}
		err := plotutil.AddLines(p, lines...)
		p.Y.Min, p.Y.Max = 0, 1
		return p, err
	}
}
