package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/bench/result"
)

// side is a column of the table.
type side string

const (
	hand   side = "by hand"
	ours   side = "purgatory"
	theirs side = "neighbour"
)

// shape is a line of the table: a job, and those that do it, one that is written by hand first.
type shape struct {
	name  string
	peers []peer
}

// peer does the job of a shape.
type peer struct {
	side    side
	name    string // which form of it, where its side has several
	measure func(window time.Duration) map[string]float64
}

// maker makes one of those that do a job, afresh for each measurement.
type maker[P interface{ Close() }] struct {
	side side
	name string
	make func() P
}

// over is a shape of all that the makers make, measured with n goroutines or the like.
func over[P interface{ Close() }](name string, makers []maker[P], n int, measure func(P, int, time.Duration) map[string]float64) shape {
	return making(name, makers, n, func(create func() P, n int, window time.Duration) map[string]float64 {
		p := create()
		defer p.Close()
		return measure(p, n, window)
	})
}

// making is a shape whose measurement makes what it measures, and closes it.
func making[P interface{ Close() }](name string, makers []maker[P], n int, measure func(create func() P, n int, window time.Duration) map[string]float64) shape {
	s := shape{name: name}
	for _, m := range makers {
		s.peers = append(s.peers, peer{m.side, m.name, func(window time.Duration) map[string]float64 { return measure(m.make, n, window) }})
	}
	return s
}

func (x peer) id() string { return strings.TrimSpace(string(x.side) + " " + x.name) }

// lastMs is the metric of a herd: from the change until the last one is awake.
const lastMs = "last-ms"

// units are the metrics in the order in which a cell shows them. The first that a shape has decides who is best.
var units = []struct {
	metric string
	show   func(float64) string
}{
	{result.NsOp, func(v float64) string { return short(time.Duration(v)) }},
	{result.LateMax, func(v float64) string { return fmt.Sprintf("%.1f ms late", v) }},
	{lastMs, func(v float64) string { return fmt.Sprintf("the last after %.0f ms", v) }},
	{result.BytesOp, func(v float64) string { return fmt.Sprintf("%.0f B", v) }},
	{result.AllocsOp, func(v float64) string { return fmt.Sprintf("%.3g", math.Round(v*10)/10) }},
	{result.Bytes, func(v float64) string { return fmt.Sprintf("%.0f B each", v) }},
}

// figures are what was measured, one for each metric of a peer: the median of the rounds, or the least of them. Memory is a
// median in any case: what else the program holds adds to it, or takes from it.
type figures struct {
	set   *result.Set
	least bool
}

// of returns the figure of a metric; ok is false if the peer has none.
func (f figures) of(s shape, x peer, metric string) (figure float64, ok bool) {
	st, ok := f.set.Stat(s.name, "", x.id(), metric)
	if f.least && metric != result.Bytes {
		return st.Min, ok
	}
	return st.Median, ok
}

// ratio returns how a peer stands to the first one of its shape, within each round, or by their least figures.
func (f figures) ratio(s shape, x peer, metric string) float64 {
	if f.least {
		own, _ := f.of(s, x, metric)
		first, _ := f.of(s, s.peers[0], metric)
		return own / first
	}
	if r, ok := f.set.Ratio(s.name, "", x.id(), metric, s.peers[0].id()); ok {
		return r
	}
	return math.Inf(1)
}

// writeTable writes a line for each shape. The best figure of a line is bold, and the last column says how the best form
// of the library stands to that by hand.
func writeTable(w io.Writer, f figures, shapes []shape) {
	fmt.Fprintf(w, "| | %s | %s | %s | purgatory / by hand |\n| --- | --- | --- | --- | ---: |\n", hand, ours, theirs)
	for _, s := range shapes {
		metric := s.decisive(f)
		decides := func(x peer) float64 { figure, _ := f.of(s, x, metric); return figure }
		best := slices.MinFunc(s.peers, func(a, b peer) int { return cmp.Compare(decides(a), decides(b)) })
		cells, ratio := map[side][]string{}, math.Inf(1)
		for _, x := range s.peers {
			shown := cell(f, s, x)
			if x.id() == best.id() {
				shown = "**" + shown + "**"
			}
			if x.name != "" {
				shown = x.name + ": " + shown
			}
			cells[x.side] = append(cells[x.side], shown)
			if x.side == ours {
				ratio = min(ratio, f.ratio(s, x, metric))
			}
		}
		column := func(at side) string { return cmp.Or(strings.Join(cells[at], "<br>"), "–") }
		fmt.Fprintf(w, "| %s | %s | %s | %s | %.2f |\n", s.name, column(hand), column(ours), column(theirs), ratio)
	}
}

// decisive returns the metric that says who is best.
func (s shape) decisive(f figures) string {
	for _, u := range units {
		if _, ok := f.of(s, s.peers[0], u.metric); ok {
			return u.metric
		}
	}
	panic(s.name + " has no figures")
}

func cell(f figures, s shape, x peer) string {
	var parts []string
	for _, u := range units {
		if figure, ok := f.of(s, x, u.metric); ok {
			parts = append(parts, u.show(figure))
		}
	}
	return strings.Join(parts, ", ")
}

// short is a duration with three digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}
