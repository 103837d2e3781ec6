// Package chart draws the plots of a run.
package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/delayedop/purgatory/bench/result"
)

// All draws every plot that the set has samples for into a folder, and removes the others from it.
func All(set *result.Set, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	charts := map[string]func(*result.Set) (*plot.Plot, error){
		"cost-over-pending.svg":   over("Add and cancel a timer (1 goroutine)", "others pending", "T1", "G=1/P=", result.NsOp),
		"step-over-waiters.svg":   over("A step of the log that satisfies 10 of N waiters", "N waiters", "H1", "N=", result.NsStep),
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

// over draws a metric over the number at the end of the parameters, a curve for each peer.
func over(title, x, of, params, metric string) func(*result.Set) (*plot.Plot, error) {
	return func(set *result.Set) (*plot.Plot, error) {
		p := newPlot(title, x, metric)
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plain{plot.LogTicks{Prec: -1}}
		curves := map[string]plotter.XYs{}
		var sizes []int
		for _, s := range set.Samples {
			n, err := strconv.Atoi(strings.TrimPrefix(s.Params, params))
			if err != nil || s.Workload != of || s.Round > 0 {
				continue
			}
			if !slices.Contains(sizes, n) {
				sizes = append(sizes, n)
			}
			st, _ := set.Stat(of, s.Params, s.Peer, metric)
			curves[s.Peer] = append(curves[s.Peer], plotter.XY{X: float64(n), Y: st.Median})
		}
		if len(sizes) < 2 {
			return nil, nil
		}
		slices.Sort(sizes)
		var ticks plot.ConstantTicks
		for i, n := range sizes {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: strconv.Itoa(n)})
		}
		p.X.Tick.Marker = ticks
		for _, peer := range result.Unique(set.Samples, func(s result.Sample) (string, bool) { return s.Peer, curves[s.Peer] != nil }) {
			points := curves[peer]
			for i := range points {
				points[i].X = float64(slices.Index(sizes, int(points[i].X)))
			}
			slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
			if err := line(p, peer, points, true); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
}

// lateness is a cumulative distribution; early expiries lie left of zero.
func lateness(title, of, params string) func(*result.Set) (*plot.Plot, error) {
	return func(set *result.Set) (*plot.Plot, error) {
		p := newPlot("Lateness: "+title, "milliseconds after the exact deadline (cut at -20 and 50)", "share of expiries")
		drawn := false
		for _, d := range set.Distributions {
			if d.Workload != of || d.Params != params {
				continue
			}
			points := make(plotter.XYs, len(d.Ms))
			for i, ms := range d.Ms {
				points[i] = plotter.XY{X: min(max(ms, -20), 50), Y: float64(i) / float64(len(d.Ms)-1)}
			}
			drawn = true
			if err := line(p, d.Peer, points, false); err != nil {
				return nil, err
			}
		}
		if !drawn {
			return nil, nil
		}
		p.Y.Min, p.Y.Max = 0, 1
		return p, nil
	}
}
