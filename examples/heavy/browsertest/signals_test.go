package browsertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/watermark"
)

// TestSourcesOfHintsAreShown has the page draw four purgatories that are well and three sources of hints, of which one is
// being restarted and one is silent.
func TestSourcesOfHintsAreShown(t *testing.T) {
	var v debug.View
	for i := range 4 {
		p := one(t)
		p.ID, p.Name = fmt.Sprintf("p-%d", i), fmt.Sprintf("replica %d, watches", i)
		v.Purgatories = append(v.Purgatories, p)
	}
	source := func(id, name, state string, n signals.Stats, notes ...debug.Note) debug.SignalsView {
		return debug.SignalsView{ID: id, Name: name, State: state, Stats: n, Notes: notes}
	}
	v.Signals = []debug.SignalsView{
		source("s-postgres", "postgres\u202e <b>", "trouble", signals.Stats{
			Running: true, Hints: 1200, Unawaited: 300, Gaps: 2, Rechecks: 6, BulkReads: 7, Failures: 5, Ends: 4, SinceLastWord: 95 * time.Second, QueueUsed: -1,
		}, debug.Note{Level: "trouble", Text: "restarting: connection <i>refused\u202e; no word since 11:58:25, for 1m35s"}, debug.Note{Level: "look", Text: "5 bulk reads failed"}),
		source("s-nats-2", "nats 2", "look", signals.Stats{Running: true, Standing: true, Hints: 500, SinceLastWord: 400 * time.Second}, debug.Note{Level: "look", Text: "no word since 11:53:20"}),
		source("s-nats", "nats", "ok", signals.Stats{Running: true, Standing: true, Hints: 12_345, Unawaited: 1234, SinceLastWord: 20 * time.Millisecond}, []debug.Note{}...),
	}
	v.Signals[0].Seconds, v.Signals[0].Before.Hints, v.Signals[0].Before.Ends, v.Signals[0].Before.Failures = 240, 1200, 3, 3
	v.Signals[2].Seconds, v.Signals[2].Before.Hints = 10, 11_930
	v.Watermarks = []debug.WatermarkView{{ID: "w-log", Name: "log", State: "ok", Stats: watermark.Stats{Waiting: 10_000, Oldest: 3 * time.Second, Expired: 5, Left: 7}, Notes: []debug.Note{}}}
	v.Queues = []debug.QueueView{{
		ID: "q-jobs", Name: "jobs", State: "look", Notes: []debug.Note{},
		Stats: queue.Stats{Waiting: 12, Items: 3, Oldest: time.Minute, Tenants: map[string]queue.Tenant{"few <b>": {Waiting: 2}, "most": {Waiting: 10, Oldest: time.Minute}}},
	}}
	b := draws(t, v)
	rows := `[...document.querySelectorAll("#overview .table:nth-child(2) tbody tr")].map(r => [...r.children].map(c => c.textContent).join("|")).join("\n")`
	assert.Equal(t, `▲ trouble|postgres\u202e <b>restarting: connection <i>refused\u202e; no word since 11:58:25, for 1m35s (+1)|0|95 s|4|2`+"\n"+
		"● look|nats 2no word since 11:53:20|–|6.7 min|0|0\n✓ ok|nats|41.5|20 ms|0|0", b.eval(t, rows))
	tiles := `[...document.querySelectorAll("#s-postgres .tile")].map(t => t.textContent + (t.classList.contains("bad") ? "!" : "")).join(", ")`
	assert.Equal(t, "restartssource!, 0hints / s, 95 ssince last word, 1200hints, 300unawaited, 4ends!, 2gaps, 6re-checks, 7bulk reads, 5failed!, 0reading for, 0reads lag, –queue used",
		b.eval(t, tiles))
	table := `[...document.querySelectorAll("#overview .table:nth-child(%d) tbody tr")].map(r => [...r.children].map(c => c.textContent).join("|")).join("\n")`
	assert.Equal(t, "● look|jobs|12|60 s|3|0", b.eval(t, fmt.Sprintf(table, 3)))
	assert.Equal(t, "✓ ok|log|10 k|3 s|5|7", b.eval(t, fmt.Sprintf(table, 4)))
	assert.Equal(t, "most|10|60 s|0,few <b>|2|0|0", b.eval(t, `[...document.querySelectorAll("#q-jobs tbody tr")].map(r => [...r.children].map(c => c.textContent).join("|")).join()`))
	assert.Equal(t, "▲ 1 – Purgatories", b.eval(t, "document.title"))
	assert.Equal(t, "s-postgres,s-nats-2,q-jobs,w-log", b.eval(t, `[...document.querySelectorAll("section > details[open]")].map(d => d.parentNode.id).join()`),
		"what is well is folded, where there are many")
	assert.Equal(t, "0", b.eval(t, `document.querySelectorAll("section b b, section i").length`), "what an engine says is text, not markup")
	b.eval(t, `document.querySelectorAll("details").forEach(d => d.open = true)`)
	for _, width := range []int64{1280, 400} {
		b.screenshot(t, fmt.Sprintf("signals-light-%d", width), width, false)
		b.screenshot(t, fmt.Sprintf("signals-dark-%d", width), width, true)
		b.do(t, chromedp.EmulateViewport(width, 900))
		assert.Equal(t, "0", b.eval(t, `[...document.querySelectorAll(".tile b")].filter(n => n.scrollWidth > n.clientWidth).length`), "no number hangs out of its tile")
		assert.Equal(t, "true", b.eval(t, `document.documentElement.scrollWidth <= innerWidth`), "nothing hangs out at a width of %d", width)
	}
}
