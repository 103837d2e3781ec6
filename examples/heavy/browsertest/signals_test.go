package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
)

// TestSourcesOfHintsAreShown has the page draw four purgatories that are well and three sources of hints, of which one is
// being restarted and one is silent, and a line of items.
func TestSourcesOfHintsAreShown(t *testing.T) {
	var v debug.View
	for i := range 4 {
		p := one(t)
		p.ID, p.Name = fmt.Sprintf("p-%d", i), fmt.Sprintf("replica %d, watches", i)
		v.Purgatories = append(v.Purgatories, p)
	}
	stands := signals.Stats{Running: true, Standing: true, Hints: 500, SinceLastWord: 400 * time.Second}
	well := signals.Stats{Running: true, Standing: true, Hints: 12_345, SinceLastWord: 20 * time.Millisecond}
	v.Signals = []debug.SignalsView{
		{
			ID: "s-postgres", Name: "postgres\u202e <b>", State: "trouble", Seconds: 240,
			Stats: signals.Stats{
				Running: true, Hints: 1200, Unawaited: 300, Gaps: 2, Rechecks: 6, BulkReads: 7, Failures: 5, Ends: 4,
				SinceLastWord: 95 * time.Second, QueueUsed: -1,
			},
			Before: signals.Stats{Hints: 1200, Ends: 3, Failures: 3},
			Notes:  []debug.Note{{Level: "trouble", Text: "restarting: connection <i>refused\u202e; no word since 11:58:25, for 1m35s"}, {Level: "look", Text: "5 bulk reads failed"}},
		},
		{ID: "s-nats-2", Name: "nats 2", State: "look", Stats: stands, Notes: []debug.Note{{Level: "look", Text: "no word since 11:53:20"}}},
		{ID: "s-nats", Name: "nats", State: "ok", Stats: well, Before: signals.Stats{Hints: 2385}, Seconds: 240, Notes: []debug.Note{}},
	}
	line := queue.Stats{Waiting: 1200, Oldest: 3 * time.Second, Refused: 5, PutRefused: 2, Tenants: map[string]queue.Tenant{"<b>flood": {Waiting: 1100}}}
	v.Queues = []debug.QueueView{{ID: "q-slots", Name: "slots", State: "ok", Stats: line, Notes: []debug.Note{}}}
	b := draws(t, v)
	rows := `[...document.querySelectorAll("#overview .table:nth-child(2) tbody tr")].map(r => [...r.children].map(c => c.textContent).join("|")).join("\n")`
	assert.Equal(t, `▲ trouble|postgres\u202e <b>restarting: connection <i>refused\u202e; no word since 11:58:25, for 1m35s (+1)|0|95 s|4|2`+"\n"+
		"● look|nats 2no word since 11:53:20|–|6.7 min|0|0\n✓ ok|nats|41.5|20 ms|0|0", b.eval(t, rows))
	assert.Equal(t, "✓ ok|slots|1200|3 s|0|7", b.eval(t, strings.ReplaceAll(rows, "nth-child(2)", "nth-child(3)")))
	assert.Equal(t, "<b>flood", b.eval(t, `document.querySelector("#q-slots td.text").textContent`))
	tiles := `[...document.querySelectorAll("#s-postgres .tile")].map(t => t.textContent + (t.classList.contains("bad") ? "!" : "")).join(", ")`
	assert.Equal(t, "restartssource!, 0hints / s, 95 ssince last word, 1200hints, 300unawaited, 4ends!, 2gaps, 6re-checks, 7bulk reads, 5failed!, 0reading for, 0reads lag, –queue used",
		b.eval(t, tiles))
	assert.Equal(t, "▲ 1 – Purgatories", b.eval(t, "document.title"))
	assert.Equal(t, "s-postgres,s-nats-2,q-slots", b.eval(t, `[...document.querySelectorAll("section > details[open]")].map(d => d.parentNode.id).join()`),
		"what is well is folded")
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
