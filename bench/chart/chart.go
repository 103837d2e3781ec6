// Package chart draws the plots of a run.
package chart

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/delayedop/purgatory/bench/result"
)

// All draws every plot that the set has samples for into a folder.
func All(set *result.Set, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	charts := []struct {
		file string
		draw func(*result.Set) (*plot.Plot, error)
	}{
		{"cost-over-pending.svg", costOverPending},
		{"lateness-timers.svg", latenessOf("T2", "G=1/N=1000000", "1,000,000 timers expiring within a second")},
		{"lateness-operations.svg", latenessOf("P6", "N=1000000", "1,000,000 operations expiring within a second")},
		{"lateness-probes.svg", latenessOf("P8", "P=1000000", "probes beside a busy purgatory with 1,000,000 pending")},
		{"memory-per-request.svg", memory},
		{"step-over-waiters.svg", stepOverWaiters},
		{"life.svg", life},
	}
	for _, c := range charts {
		p, err := c.draw(set)
		if err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
		if p == nil {
			continue // not measured in this run
		}
		if err := p.Save(8*vg.Inch, 4.5*vg.Inch, filepath.Join(folder, c.file)); err != nil {
			return err
		}
	}
	return nil
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Title.TextStyle.Font.Size = 12
	p.BackgroundColor = color.White
	p.Legend.Top, p.Legend.Left = true, true
	for _, f := range []*font.Font{&p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.Legend.TextStyle.Font} {
		f.Size = 10
	}
	p.Add(plotter.NewGrid())
	return p
}

// line adds a peer's curve. Ours are drawn thick; every peer keeps its colour over all plots.
func line(p *plot.Plot, peer string, points plotter.XYs, marks bool) error {
	l, s, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	c := colorOf(peer)
	l.Color, s.Color = c, c
	l.Width, s.Radius = vg.Points(1.2), vg.Points(2.5)
	if strings.HasPrefix(peer, "ours") {
		l.Width = vg.Points(2.8)
	}
	s.Shape = draw.CircleGlyph{}
	p.Add(l)
	if marks {
		p.Add(s)
	}
	p.Legend.Add(peer, l)
	return nil
}

var order = []string{
	"ours", "ours-entry", "ours-handle", "ours-ordered", "ours-unordered", "std", "heap", "cb", "cb-lazy", "chan", "russellluo",
	"antlabs", "rfyiamcool", "ouqiang", "go-zero",
}

func colorOf(peer string) color.Color {
	for i, name := range order {
		if name == peer {
			return plotutil.DarkColors[i%len(plotutil.DarkColors)]
		}
	}
	return color.Black
}

func peersOf(set *result.Set, workload, params string) []string {
	return result.Unique(set.Samples, func(s result.Sample) (string, bool) {
		return s.Peer, s.Workload == workload && strings.HasPrefix(s.Params, params)
	})
}
