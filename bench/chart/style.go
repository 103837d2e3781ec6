package chart

import (
	"image/color"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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
	p.Y.Tick.Marker = plain{plot.DefaultTicks{}}
	p.Legend.Top, p.Legend.Left = true, true
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
