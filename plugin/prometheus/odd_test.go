package prometheus

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/odd"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/watermark"
)

// collected is a world with a collector of a source that behaves, and of what a cell adds.
type collected struct {
	t *testing.T
	c *Collector
}

type (
	oddSource    struct{ name, stats func() }
	oddQueue     struct{ stats func() }
	oddSignals   struct{ stats func() }
	oddWatermark struct{ stats func() }
)

func (s oddSource) Name() string              { s.name(); return "odd" }
func (s oddSource) Stats() purgatory.Stats    { s.stats(); return purgatory.Stats{} }
func (s oddQueue) Stats() queue.Stats         { s.stats(); return queue.Stats{} }
func (s oddSignals) Stats() signals.Stats     { s.stats(); return signals.Stats{Name: "odd"} }
func (s oddWatermark) Stats() watermark.Stats { s.stats(); return watermark.Stats{} }

type named struct{ oddSource }

func (named) Name() string { return "named" }

func nothing() {}

func newCollected(t *testing.T) *collected {
	c, err := New(named{oddSource{nothing, nothing}})
	require.NoError(t, err)
	return &collected{t, c}
}

func (w *collected) Back() {
	_, _ = w.c.Add(oddSource{nothing, nothing}), w.c.AddQueue("new", oddQueue{nothing})
	_, _ = w.c.AddSignals(oddSignals{nothing}), w.c.AddWatermark("new", oddWatermark{nothing})
	w.Close()
}

func (w *collected) Close() {
	w.c.Remove("odd")
	w.c.RemoveQueue("new")
	w.c.RemoveSignals("odd")
	w.c.RemoveWatermark("new")
}

func (w *collected) Seen() string { return "" }
func (w *collected) Beside()      { w.Back() }
func (w *collected) End()         { assert.Contains(w.t, w.gather(), "whole") }

// gather says how much there is, and of what.
func (w *collected) gather() string {
	registry := prometheus.NewRegistry()
	require.NoError(w.t, registry.Register(w.c))
	families, err := registry.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "named" {
					return map[bool]string{true: "whole", false: "a part"}[err == nil]
				}
			}
		}
	}
	return fmt.Sprint("nothing of the other source: ", err)
}

func TestOddUsersOfACollector(t *testing.T) {
	want := map[odd.User]string{odd.Panics: "a part", odd.Exits: "a part", odd.CallsBack: "whole", odd.Closes: "whole", odd.Stays: "stays"}
	odd.Check(t, ".", newCollected, []odd.Row[*collected]{
		{
			Of: []string{"Source.Stats", "QueueSource.Stats", "SignalSource.Stats", "WatermarkSource.Stats"}, On: "at a scrape", Want: want,
			Do: func(w *collected, d *odd.Do) string {
				armed := false
				act := func() {
					if armed {
						d.Act()
					}
				}
				switch d.Of {
				case "Source.Stats":
					require.NoError(w.t, w.c.Add(oddSource{nothing, act}))
				case "QueueSource.Stats":
					require.NoError(w.t, w.c.AddQueue("odd", oddQueue{act}))
				case "SignalSource.Stats":
					require.NoError(w.t, w.c.AddSignals(oddSignals{act}))
				default:
					require.NoError(w.t, w.c.AddWatermark("odd", oddWatermark{act}))
				}
				armed = true
				return w.gather()
			},
		},
		{
			Of: []string{"Source.Name"}, On: "in Add", Want: map[odd.User]string{
				odd.Panics: "panics", odd.Exits: "exits", odd.CallsBack: "whole", odd.Closes: "whole", odd.Stays: "stays",
			},
			Do: func(w *collected, d *odd.Do) string {
				require.NoError(w.t, w.c.Add(oddSource{d.Act, nothing}))
				return w.gather()
			},
		},
		{
			Of: []string{"New(sources)", "NewWithOptions(sources)"}, On: "afterwards",
			Want: map[odd.User]string{odd.Appends: "whole", odd.Changes: "whole", odd.Keeps: "whole"},
			Do: func(w *collected, d *odd.Do) string {
				sources := append(make([]Source, 0, 4), named{oddSource{nothing, nothing}})
				if d.Of == "New(sources)" {
					w.c, _ = New(sources...)
				} else {
					w.c, _ = NewWithOptions(Options{}, sources...)
				}
				odd.Slice(d, sources, nil)
				d.Spoil()
				return w.gather()
			},
		},
	})
}
