package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// draws opens a page and has it draw v, and no more: it is paused.
func draws(t *testing.T, v debug.View) *browser {
	t.Helper()
	page, err := debug.New()
	require.NoError(t, err)
	t.Cleanup(page.Close)
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL), chromedp.WaitVisible(chromedp.CSS("#main")),
		chromedp.Click(chromedp.CSS("#pause")))
	text, err := json.Marshal(v)
	require.NoError(t, err)
	b.eval(t, "draw("+string(text)+")")
	return b
}

// one returns what the page shows of a purgatory with diagnostics, at first.
func one(t *testing.T) debug.PurgatoryView {
	t.Helper()
	page, err := debug.New(newPurgatory(t, "produces"))
	require.NoError(t, err)
	t.Cleanup(page.Close)
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=json", nil))
	var v debug.View
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	require.Len(t, v.Purgatories, 1)
	return v.Purgatories[0]
}

func (b *browser) plot(t *testing.T, title, js string) string {
	t.Helper()
	return b.eval(t, `(p => `+js+`)([...document.querySelectorAll(".plot")].find(p => p.querySelector("h3").textContent.startsWith("`+title+`")))`)
}

// TestPlotsAreToScale has the page draw numbers that are known, and reads what it says and how high it has drawn.
func TestPlotsAreToScale(t *testing.T) {
	p := one(t)
	p.History = nil
	for second := range int64(11) {
		p.History = append(p.History, debug.SampleView{Time: 1000 * second, Pending: 150 * second, Ended: []int64{1000 * second, 0, 300 * second, 0, 0}})
	}
	p.Seconds, p.Stats.Checks = 10, 123_450
	last := len(purgatory.Histogram{}.Counts) - 1
	p.Stats.Waited[operation.Expired].Counts[last] = 9
	p.Stats.Waited[operation.Satisfied].Counts[last] = 6
	b := draws(t, debug.View{Purgatories: []debug.PurgatoryView{p}})

	tiles := `[...document.querySelectorAll(".tile")].map(t => t.textContent).join(" ")`
	for _, want := range []string{"1300ended / s", "300expired / s", "12.3 kchecks / s"} {
		assert.Contains(t, b.eval(t, tiles), want)
	}
	ticks := `[...p.querySelectorAll(".y span")].map(s => s.textContent).join(" ")`
	ends := `[...p.querySelectorAll(".axis span")].map(s => s.textContent).join(" ")`
	peak := `p.querySelector("h3").textContent`

	assert.Equal(t, "Pending peak 1500", b.plot(t, "Pending", peak))
	assert.Equal(t, "1600 800 0", b.plot(t, "Pending", ticks))
	assert.Equal(t, "10 s ago now", b.plot(t, "Pending", ends))
	assert.Equal(t, "100.00,6.25", b.plot(t, "Pending", `p.querySelector("polygon").getAttribute("points").split(" ")[10]`), "1500 of 1600")

	assert.Equal(t, "Ended per second peak 1300", b.plot(t, "Ended per second", peak))
	assert.Equal(t, "1600 800 0", b.plot(t, "Ended per second", ticks))
	assert.Equal(t, "9 s ago now", b.plot(t, "Ended per second", ends))
	assert.Equal(t, "0.00,37.50", b.plot(t, "Ended per second", `p.querySelector("polygon.satisfied").getAttribute("points").split(" ")[0]`), "1000 of 1600")
	assert.Equal(t, "0.00,18.75", b.plot(t, "Ended per second", `p.querySelector("polygon.expired").getAttribute("points").split(" ")[0]`), "300 upon 1000")
	assert.Equal(t, "satisfied expired", b.plot(t, "Ended per second", `[...p.querySelectorAll(".legend span")].map(s => s.textContent).join(" ")`))

	// The last bucket has no bound, and is drawn all the same.
	heights := `[...p.querySelectorAll("rect")].map(r => +r.getAttribute("height")).filter(h => h > 0).join(" ")`
	assert.Equal(t, "37.5 56.25", b.plot(t, "Wait time", heights), "6 and 9 of 16, one upon the other")
	assert.Equal(t, "> 69.9 min: 9 expired", b.plot(t, "Wait time", `[...p.querySelectorAll("title")].filter(t => t.textContent.startsWith(">"))[2].textContent`))
	assert.Regexp(t, "> 69.9 min$", b.plot(t, "Wait time", ends))
	assert.Equal(t, "16 8 0", b.plot(t, "Wait time", ticks))
	b.screenshot(t, "scale-1280", 1280, false)
}

// TestPlotsHaveGaps where nothing was sampled: nobody looked for a minute, and the rate over that minute is none of a second.
func TestPlotsHaveGaps(t *testing.T) {
	p := one(t)
	p.History = nil
	for _, second := range []int64{0, 1, 2, 6, 66, 67, 68} {
		ended := 10 * second
		if second >= 66 {
			ended += 48_000
		}
		p.History = append(p.History, debug.SampleView{Time: 1000 * second, Pending: 100, Ended: []int64{ended, 0, 0, 0, 0}})
	}
	b := draws(t, debug.View{Purgatories: []debug.PurgatoryView{p}})
	const ends = `[...p.querySelectorAll("polygon")].map(a => a.getAttribute("points").split(" ")).map(ps => [ps[0], ps[ps.length / 2 - 1]].map(at => parseInt(at)).join("-")).join(" ")`
	assert.Equal(t, "0-8 97-100", b.plot(t, "Pending", ends))
	assert.Equal(t, "0-7", b.plot(t, "Ended per second", `[...p.querySelectorAll("polygon.satisfied")].slice(0, 1).map(a => a.getAttribute("points").split(" ")).map(ps => [ps[0], ps[ps.length / 2 - 1]].map(at => parseInt(at)).join("-")).join(" ")`))
	assert.Equal(t, "Ended per second peak 10", b.plot(t, "Ended per second", `p.querySelector("h3").textContent`), "the mean of the gap is not drawn")
	b.screenshot(t, "gaps-1280", 1280, false)
}

func TestEndsOfAxesAreShort(t *testing.T) {
	b := draws(t, debug.View{Purgatories: []debug.PurgatoryView{}})
	for most, top := range map[string]string{
		"0": "1", "0.3": "1", "1": "1", "1.5": "1.6", "3": "3", "5": "6", "7": "8", "9": "10", "10": "10", "11": "12",
		"999": "1000", "1000": "1000", "1001": "1200", "123456": "160000", "81000": "100000",
	} {
		assert.Equal(t, top, b.eval(t, "nice("+most+")"), most)
	}
}

// TestWhatIsStuckStandsOut: a callback does not return, and 38 expired operations wait for a worker.
func TestWhatIsStuckStandsOut(t *testing.T) {
	well, p := one(t), one(t)
	well.ID, well.Name = "p-well", "well"
	n := &p.Stats
	p.State, n.Running, n.BlockedFor, n.Due, n.OldestDue = "trouble", 2, 3100*time.Millisecond, 38, 3*time.Second
	n.Watched, n.MaxPending, n.Pending, n.Rejected, n.Panics, n.Unchecked = 200_000, 50, 40, 7, 1, 4
	p.Inspection = &purgatory.Inspection{
		Looked: 4096, Oldest: []purgatory.OperationReport{{Age: 3 * time.Second, Left: purgatory.NoTimeout, Key: "orders-0", Type: "*produce"}},
		Unchecked: []purgatory.ExpiryReport{{Type: "*produce", Key: "audit", Age: time.Second, Checks: 9}}, NeverTrue: []purgatory.ExpiryReport{{Type: "*produce", Key: "payments", Age: time.Second, Checks: 1000}},
	}
	p.Notes = []debug.Note{{Level: "trouble", Text: "a method has been running"}, {Level: "look", Text: "38 wait"}}
	b := draws(t, debug.View{Purgatories: []debug.PurgatoryView{p, well}})
	row := `[...document.querySelectorAll("#overview tbody tr:first-child td")].map(c => c.textContent).join("|")`
	assert.Equal(t, "▲ trouble|producesa method has been running (+1)|40|0|–|–|2", b.eval(t, row))
	bad := `[...document.querySelectorAll(".tile.bad")].map(t => t.textContent).join(", ")`
	assert.Equal(t, "3.1 snone has returned for, 38due for 3 s, 4expired unchecked, 7rejected, 1panics", b.eval(t, bad))
	assert.Equal(t, "40pending of 50", b.eval(t, `document.querySelector(".tile").textContent`))
	titles := `[...document.querySelectorAll(".table h3")].map(h => h.textContent).join()`
	assert.Equal(t, "Expired lately the last of some keys: never checked, or never true,Oldest operations of 4096 of 200 k watches; the oldest of all is ≥ 3 s", b.eval(t, titles))
	cells := `[...document.querySelectorAll(".tables tbody tr")].map(r => [...r.children].map(c => c.textContent).join("|")).join("\n")`
	assert.Equal(t, "1 s|none|audit|*produce\n1 s|1000|payments|*produce\n3 s|no timeout|orders-0|*produce", b.eval(t, cells))
	b.screenshot(t, "stuck-1280", 1280, false)
}

// TestThoseThatAreWellAreFolded, if there are many, unless the reader wants to see them.
func TestThoseThatAreWellAreFolded(t *testing.T) {
	var v debug.View
	for _, name := range []string{"a", "b", "c"} {
		p := one(t)
		p.ID, p.Name = "p-"+name, name
		v.Purgatories = append(v.Purgatories, p)
	}
	v.Purgatories[0].State = "look"
	b := draws(t, v)
	const open = `[...document.querySelectorAll("section > details[open] h2")].map(h => h.textContent).join()`
	assert.Equal(t, "a", b.eval(t, open))
	b.do(t, chromedp.Click(chromedp.CSS("#p-b h2")))
	assert.Equal(t, "a,b", b.eval(t, open))
	b.eval(t, `document.querySelector("#overview a[href='#p-c']").click()`)
	assert.Equal(t, "a,b,c", b.eval(t, open))
	b.do(t, chromedp.Click(chromedp.CSS("#p-a h2")))
	text, err := json.Marshal(v)
	require.NoError(t, err)
	b.eval(t, "draw("+string(text)+")")
	assert.Equal(t, "b,c", b.eval(t, open), "news do not fold or unfold what the reader has chosen")
}

// TestWhatIsSaidOnceStandsOnceOnThePage: a stall above all, what is not known below all; and what is expected is no alarm.
func TestWhatIsSaidOnceStandsOnceOnThePage(t *testing.T) {
	sessions, produces := one(t), one(t)
	sessions.ID, sessions.Name, sessions.Stats.TimeoutsExpected, sessions.Stats.Unchecked = "p-sessions", "sessions", true, 9
	produces.State, produces.Stats.Running, produces.Stats.BlockedFor, produces.Stats.GaveUp = "trouble", 10, 12500*time.Millisecond, 40
	produces.Notes = []debug.Note{{Level: "trouble", Text: "a method of *produce, key orders-0, has been running for 12.5s: it blocks a worker, or the goroutine that called the purgatory, and whoever waits for it. A goroutine profile shows where"}}
	v := debug.View{
		Notes:       []debug.Note{{Level: "look", Text: "7 timeouts of produces, sessions late in the last minutes: the process stalled. Does it get the CPU? <b>"}},
		Purgatories: []debug.PurgatoryView{produces, sessions},
		More:        "Not known: how long operations waited. WithDiagnostics counts it. <b>",
	}
	b := draws(t, v)
	assert.Equal(t, v.Notes[0].Text, b.eval(t, `document.querySelector("#main > .note.look:first-child").textContent`))
	assert.Equal(t, v.More, b.eval(t, `document.querySelector("#main > p.dim:last-child").textContent`))
	assert.Equal(t, "0", b.eval(t, `document.querySelectorAll("#main b b, #main > p b").length`), "text, not markup")
	tiles := `[...document.querySelectorAll("%s .tile")].map(t => t.textContent + (t.classList.contains("bad") ? "!" : "")).join(", ")`
	assert.Contains(t, b.eval(t, fmt.Sprintf(tiles, "#p-produces")), "40gave up, 10callbacks run, 12.5 snone has returned for!")
	b.eval(t, `document.querySelectorAll("details").forEach(d => d.open = true)`)
	assert.Contains(t, b.eval(t, `document.querySelector("#p-sessions .head").textContent`), "timeouts expected")
	assert.NotContains(t, b.eval(t, fmt.Sprintf(tiles, "#p-sessions")), "unchecked", "expected")
	for _, width := range []int64{1280, 400} {
		b.screenshot(t, fmt.Sprintf("once-light-%d", width), width, false)
		b.screenshot(t, fmt.Sprintf("once-dark-%d", width), width, true)
		b.do(t, chromedp.EmulateViewport(width, 900))
		assert.Equal(t, "true", b.eval(t, `document.documentElement.scrollWidth <= innerWidth`), "nothing hangs out at a width of %d", width)
	}
}
