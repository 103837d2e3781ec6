package chart

import (
	"image/color"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
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
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = vg.Points(8)
	for _, f := range []*font.Font{&p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.Legend.TextStyle.Font} {
		f.Size = 10
	}
	p.Y.Tick.Marker = plainTicks{}
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

var colors = map[string]color.RGBA{
	"ours":           {R: 0x1b, G: 0x5e, B: 0xc8, A: 0xff},
	"ours-entry":     {R: 0x1b, G: 0x5e, B: 0xc8, A: 0xff},
	"ours-ordered":   {R: 0x1b, G: 0x5e, B: 0xc8, A: 0xff},
	"ours-handle":    {R: 0x49, G: 0xb0, B: 0xe8, A: 0xff},
	"ours-unordered": {R: 0x49, G: 0xb0, B: 0xe8, A: 0xff},
	"std":            {R: 0x22, G: 0x22, B: 0x22, A: 0xff},
	"std-alone":      {R: 0x22, G: 0x22, B: 0x22, A: 0xff},
	"std-timers":     {R: 0x22, G: 0x22, B: 0x22, A: 0xff},
	"floor":          {R: 0xaa, G: 0xaa, B: 0xaa, A: 0xff},
	"heap":           {R: 0xd0, G: 0x2f, B: 0x2f, A: 0xff},
	"cb":             {R: 0xd0, G: 0x2f, B: 0x2f, A: 0xff},
	"cb-lazy":        {R: 0xf0, G: 0x9a, B: 0x3a, A: 0xff},
	"russellluo":     {R: 0xf0, G: 0x9a, B: 0x3a, A: 0xff},
	"chan":           {R: 0x2e, G: 0x8b, B: 0x3d, A: 0xff},
	"antlabs":        {R: 0x2e, G: 0x8b, B: 0x3d, A: 0xff},
	"rfyiamcool":     {R: 0x8a, G: 0x3f, B: 0xb5, A: 0xff},
	"ouqiang":        {R: 0x9a, G: 0x6b, B: 0x3f, A: 0xff},
	"go-zero":        {R: 0xd8, G: 0x55, B: 0xa5, A: 0xff},
}

func colorOf(peer string) color.Color {
	if c, ok := colors[peer]; ok {
		return c
	}
	return color.Gray{Y: 0x80}
}

// plainTicks labels the usual ticks with plain figures.
type plainTicks struct{}

func (plainTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 64)
		}
	}
	return ticks
}
