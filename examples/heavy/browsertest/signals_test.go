package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/debug"
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
	hints := 41.5
	v.Signals = []debug.SignalsView{
		{
			ID: "s-postgres", Name: "postgres\u202e <b>", State: "trouble", Running: true, Hints: 1200, Unawaited: 300, Gaps: 2, Audits: 3, Rechecks: 6,
			BulkReads: 7, Failures: 5, Ends: 4, SinceLastWord: 95, Error: "connection refused", Rate: new(float64),
			Notes:  []debug.Note{{Level: "trouble", Text: "restarting: connection <i>refused\u202e; no word since 11:58:25, for 1m35s"}, {Level: "look", Text: "5 bulk reads failed"}},
			Window: debug.SignalsWindowView{Text: "in the last 4 min", Seconds: 240, Ends: 1, Failures: 2},
		},
		{ID: "s-nats-2", Name: "nats 2", State: "look", Running: true, Standing: true, Hints: 500, SinceLastWord: 400, Notes: []debug.Note{{Level: "look", Text: "no word since 11:53:20"}}},
		{ID: "s-nats", Name: "nats", State: "ok", Running: true, Standing: true, Hints: 12_345, Unawaited: 1234, SinceLastWord: 0.02, Rate: &hints, Notes: []debug.Note{}},
	}
	b := draws(t, v)
	rows := `[...document.querySelectorAll("#overview .table:nth-child(2) tbody tr")].map(r => [...r.children].map(c => c.textContent).join("|")).join("\n")`
	assert.Equal(t, `▲ trouble|postgres\u202e <b>restarting: connection <i>refused\u202e; no word since 11:58:25, for 1m35s (+1)|0|95 s|4|2`+"\n"+
		"● look|nats 2no word since 11:53:20|–|6.7 min|0|0\n✓ ok|nats|41.5|20 ms|0|0", b.eval(t, rows))
	tiles := `[...document.querySelectorAll("#s-postgres .tile")].map(t => t.textContent + (t.classList.contains("bad") ? "!" : "")).join(", ")`
	assert.Equal(t, "restartssource!, 0hints / s, 95 ssince last word, 1200hints, 25 %unawaited, 4ends!, 2gaps, 6re-checks, 3audits, 5 of 7bulk reads failed!",
		b.eval(t, tiles))
	assert.Equal(t, "Last error: connection refused", b.eval(t, `document.querySelector("#s-postgres p.dim").textContent`))
	assert.Equal(t, "▲ 1 – Purgatories", b.eval(t, "document.title"))
	assert.Equal(t, "s-postgres,s-nats-2", b.eval(t, `[...document.querySelectorAll("section > details[open]")].map(d => d.parentNode.id).join()`),
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
