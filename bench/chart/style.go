package chart

import (
	"image/color"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width, height = 9 * vg.Inch, 4.5 * vg.Inch
	margin        = 12 * vg.Inch / 72
	legendWidth   = 1.5 * vg.Inch
)

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Title.TextStyle.Font.Size = 13
	p.Y.Tick.Marker = plain{plot.DefaultTicks{}}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(3)
	p.Add(plotter.NewGrid())
	return p
}

// save writes p with its legend beside it, so that no curve runs under a name.
func save(p *plot.Plot, path string) error {
	c := vgsvg.New(width, height)
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Path())
	legend := p.Legend
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(dc, margin, -legendWidth-margin, margin, -margin))
	legend.Draw(draw.Crop(dc, width-legendWidth, -margin, margin, -3*margin))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// line adds a peer's curve. Ours are drawn thick, those of others with dashes; every peer keeps its colour over all plots.
func line(p *plot.Plot, peer string, points plotter.XYs, marks bool) error {
	l, s, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	c := colorOf(peer)
	l.Color, s.Color = c, c
	l.Width, s.Radius = vg.Points(1.4), vg.Points(2.5)
	if strings.HasPrefix(peer, "ours") {
		l.Width = vg.Points(3)
	} else {
		l.Dashes = []vg.Length{vg.Points(5), vg.Points(2)}
	}
	s.Shape = draw.CircleGlyph{}
	p.Add(l)
	if marks {
		p.Add(s)
	}
	p.Legend.Add(peer, l)
	return nil
}

var colors = map[string]int{
	"ours": 2, "ours-entry": 2, "ours-ordered": 2, "ours-handle": 6, "ours-unordered": 6,
	"std": 1, "std-alone": 1, "std-timers": 1,
	"heap": 0, "cb": 0, "russellluo": 3, "chan": 3, "antlabs": 4, "go-zero": 5,
}

// colorOf is the peer's colour over all plots.
func colorOf(peer string) color.Color {
	if i, ok := colors[peer]; ok {
		return plotutil.DarkColors[i%len(plotutil.DarkColors)]
	}
	return color.Gray{Y: 0x80}
}

// plain labels the ticks of another marker with plain figures.
type plain struct{ plot.Ticker }

func (p plain) Ticks(low, high float64) []plot.Tick {
	ticks := p.Ticker.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 64)
		}
	}
	return ticks
}
