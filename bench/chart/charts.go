package chart

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/workload"
)

// costOverPending is T1 at one goroutine: what a timer costs over how many others are pending.
func costOverPending(set *result.Set) (*plot.Plot, error) {
	p := newPlot("Add and cancel a timer (1 goroutine)", "others pending", "ns")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	pendings := []int{0, 100_000, 1_000_000}
	drawn := false
	for _, peer := range peersOf(set, "T1", "G=1/") {
		var points plotter.XYs
		for i, pending := range pendings {
			if st, ok := set.Stat("T1", fmt.Sprintf("G=1/P=%d", pending), peer, result.NsOp); ok {
				points = append(points, plotter.XY{X: float64(i), Y: st.Median})
			}
		}
		if len(points) < len(pendings) {
			continue
		}
		drawn = true
		if err := line(p, peer, points, true); err != nil {
			return nil, err
		}
	}
	if !drawn {
		return nil, nil
	}
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 1, Label: "100,000"}, {Value: 2, Label: "1,000,000"}}
	return p, nil
}

// latenessOf is a cumulative distribution of lateness; early expiries lie left of zero.
func latenessOf(workload, params, title string) func(*result.Set) (*plot.Plot, error) {
	return func(set *result.Set) (*plot.Plot, error) {
		p := newPlot("Lateness: "+title, "milliseconds after the exact deadline (cut at -20 and 50)", "share of expiries")
		drawn := false
		for _, d := range set.Distributions {
			if d.Workload != workload || d.Params != params {
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

// stepOverWaiters is H1: what ten satisfied waiters cost over how many wait.
func stepOverWaiters(set *result.Set) (*plot.Plot, error) {
	p := newPlot("A step of the log that satisfies 10 of N waiters", "N waiters", "ns per step")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	drawn := false
	for _, peer := range peersOf(set, "H1", "N=") {
		var points plotter.XYs
		for _, s := range set.Samples {
			n, err := strconv.Atoi(strings.TrimPrefix(s.Params, "N="))
			if err != nil || s.Workload != "H1" || s.Peer != peer || s.Round > 0 {
				continue
			}
			if st, ok := set.Stat("H1", s.Params, peer, result.NsStep); ok {
				points = append(points, plotter.XY{X: float64(n), Y: st.Median})
			}
		}
		sort.Slice(points, func(i, j int) bool { return points[i].X < points[j].X })
		if len(points) < 2 {
			continue
		}
		drawn = true
		if err := line(p, peer, points, true); err != nil {
			return nil, err
		}
	}
	if !drawn {
		return nil, nil
	}
	return p, nil
}

// memory is P5: bytes per pending request.
func memory(set *result.Set) (*plot.Plot, error) {
	return bars(set, "Memory per pending request", "bytes", result.Bytes, []group{
		{"1 key", "P5", "keys=1/N=1000000", []string{"ours", "cb", "chan"}},
		{"3 keys", "P5", "keys=3/N=1000000", []string{"ours", "cb", "chan"}},
	})
}

// life is P1 and P2 beside the standard library's timer alone: beside a live heap if that was measured.
func life(set *result.Set) (*plot.Plot, error) {
	peers := []string{"ours", "std-alone", "cb", "chan"}
	for _, heap := range []string{workload.HeapParam(workload.Heap), ""} {
		p, err := bars(set, "An operation's life, beside AfterFunc+Stop alone", "ns", result.NsOp, []group{
			{"1 key", "P1", "G=1" + heap, peers},
			{"1 key, 2 goroutines", "P1", "G=2" + heap, peers},
			{"3 keys", "P2", "G=1" + heap, peers},
			{"3 keys, 2 goroutines", "P2", "G=2" + heap, peers},
		})
		if p != nil || err != nil {
			return p, err
		}
	}
	return nil, nil
}

type group struct {
	label, workload, params string
	peers                   []string
}

// bars draws a group of bars, one for each peer.
func bars(set *result.Set, title, unit, metric string, groups []group) (*plot.Plot, error) {
	p := newPlot(title, "", unit)
	barWidth := vg.Points(24)
	labels := make([]string, len(groups))
	for i, peer := range groups[0].peers {
		values := make(plotter.Values, len(groups))
		for j, g := range groups {
			st, ok := set.Stat(g.workload, g.params, peer, metric)
			if !ok {
				return nil, nil
			}
			values[j], labels[j] = st.Median, g.label
		}
		b, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return nil, err
		}
		b.Color = colorOf(peer)
		b.LineStyle.Width = 0
		b.Offset = barWidth * vg.Length(float64(i)-float64(len(groups[0].peers)-1)/2)
		p.Add(b)
		p.Legend.Add(peer, b)
		if err := figures(p, values, b.Offset); err != nil {
			return nil, err
		}
	}
	p.NominalX(labels...)
	p.X.Min, p.X.Max = -0.5, float64(len(groups))-0.5
	p.Y.Min = 0
	p.Y.Max *= 1.08 // room for the figures
	return p, nil
}

// figures writes the value on top of each bar.
func figures(p *plot.Plot, values plotter.Values, offset vg.Length) error {
	at := plotter.XYLabels{}
	for i, v := range values {
		at.XYs = append(at.XYs, plotter.XY{X: float64(i), Y: v})
		at.Labels = append(at.Labels, strconv.FormatFloat(v, 'f', 0, 64))
	}
	l, err := plotter.NewLabels(at)
	if err != nil {
		return err
	}
	for i := range l.TextStyle {
		l.TextStyle[i].XAlign = text.XCenter
		l.TextStyle[i].Font.Size = 9
	}
	l.Offset = vg.Point{X: offset, Y: vg.Points(2)}
	p.Add(l)
	return nil
}

// logTicks labels powers of ten with plain figures.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) []plot.Tick {
	var out []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		v := math.Pow(10, e)
		out = append(out, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
		for m := 2.0; m < 10; m++ {
			out = append(out, plot.Tick{Value: m * v})
		}
	}
	return out
}
