package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

// chart is a picture of what a step of a log costs as waiters grow in number, in the colours of one background.
type chart struct{ file, text, grid, ours, hand string }

// charts are the pictures of the front page.
var charts = []chart{
	{"docs/step-light.svg", "#1f2328", "#d1d9e0", "#0969da", "#bc4c00"},
	{"docs/step-dark.svg", "#f0f6fc", "#3d444d", "#4493f8", "#db6d28"},
}

// The place of the axes, in the picture's units. Both are logarithmic: x from 100 waiters to 1,000,000, y from 100 ns to 100 ms.
const (
	left, right, top, bottom = 80.0, 520.0, 20.0, 260.0
	decadeX, decadeY         = (right - left) / 4, (bottom - top) / 6
)

// draw returns the picture, nil if the run has not measured these steps.
func (c chart) draw(set *result.Set) []byte {
	var b bytes.Buffer
	line := func(peer, colour, name string) (drawn bool) {
		var points []string
		x, y := 0.0, 0.0
		for n := 100; n <= 1_000_000; n *= 10 {
			if st, ok := set.Stat("H1", fmt.Sprintf("N=%d", n), peer, result.NsStep); ok {
				x = left + decadeX*(math.Log10(float64(n))-2)
				y = bottom - decadeY*(math.Log10(st.Median)-2)
				points = append(points, fmt.Sprintf("%.0f,%.0f", x, y))
			}
		}
		fmt.Fprintf(&b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"3\"/>\n", strings.Join(points, " "), colour)
		fmt.Fprintf(&b, "<text x=\"%.0f\" y=\"%.0f\" fill=\"%s\">%s</text>\n", x+8, y+4, colour, name)
		return len(points) > 1
	}
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 680 300\" font-family=\"sans-serif\" font-size=\"13\" fill=\"%s\">\n", c.text)
	fmt.Fprintln(&b, "<title>What a step of a log costs that ends 10 of N waiters</title>")
	for i, label := range []string{"100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"} {
		y := bottom - decadeY*float64(i)
		fmt.Fprintf(&b, "<path d=\"M%.0f %.0fH%.0f\" stroke=\"%s\"/><text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n",
			left, y, right, c.grid, left-8, y+4, label)
	}
	for i, label := range []string{"100", "1,000", "10,000", "100,000", "1,000,000 waiters"} {
		fmt.Fprintf(&b, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n", left+decadeX*float64(i), bottom+20, label)
	}
	if !line("ours-ordered", c.ours, "purgatory") || !line(purgatories.CB, c.hand, "a map by hand") {
		return nil
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}
