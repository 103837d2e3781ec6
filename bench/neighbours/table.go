package main

import (
	"fmt"
	"io"
	"math"
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

// shape is a line of the table: a job, and those that do it.
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

// over is a shape of all that the makers make.
func over[P interface{ Close() }](name string, makers []maker[P], measure func(P, time.Duration) map[string]float64) shape {
	s := shape{name: name}
	for _, m := range makers {
		s.peers = append(s.peers, peer{m.side, m.name, func(window time.Duration) map[string]float64 {
			p := m.make()
			defer p.Close()
			return measure(p, window)
		}})
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

// writeTable writes a line for each shape. The best figure of a line is bold, and the last column says how the best form
// of the library stands to that by hand.
func writeTable(w io.Writer, set *result.Set, shapes []shape) {
	sides := []side{hand, ours, theirs}
	fmt.Fprintf(w, "| |")
	for _, s := range sides {
		fmt.Fprintf(w, " %s |", s)
	}
	fmt.Fprint(w, " purgatory / by hand |\n| --- | --- | --- | --- | ---: |\n")
	for _, s := range shapes {
		best, metric := s.best(set)
		cells, ratio := map[side][]string{}, math.Inf(1)
		for _, x := range s.peers {
			figures := cell(set, s, x)
			if x.id() == best {
				figures = "**" + figures + "**"
			}
			if x.name != "" {
				figures = x.name + ": " + figures
			}
			cells[x.side] = append(cells[x.side], figures)
			if r, ok := set.Ratio(s.name, "", x.id(), metric, s.byHand()); ok && x.side == ours {
				ratio = min(ratio, r)
			}
		}
		fmt.Fprintf(w, "| %s |", s.name)
		for _, at := range sides {
			fmt.Fprintf(w, " %s |", strings.Join(cells[at], "<br>"))
		}
		if math.IsInf(ratio, 1) {
			fmt.Fprintln(w, " – |")
		} else {
			fmt.Fprintf(w, " %.2f |\n", ratio)
		}
	}
}

// byHand names the peer that ratios are taken to: the first that is written by hand.
func (s shape) byHand() string {
	for _, x := range s.peers {
		if x.side == hand {
			return x.id()
		}
	}
	return ""
}

// best returns the peer with the lowest figure, and the metric that it is the lowest of.
func (s shape) best(set *result.Set) (peer, metric string) {
	for _, u := range units {
		lowest := math.Inf(1)
		for _, x := range s.peers {
			if st, ok := set.Stat(s.name, "", x.id(), u.metric); ok && st.Median < lowest {
				lowest, peer = st.Median, x.id()
			}
		}
		if peer != "" {
			return peer, u.metric
		}
	}
	return "", ""
}

func cell(set *result.Set, s shape, x peer) string {
	var parts []string
	for _, u := range units {
		if st, ok := set.Stat(s.name, "", x.id(), u.metric); ok {
			parts = append(parts, u.show(st.Median))
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
