package browsertest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/purgatory"
)

// serve serves a page over three brokers' produces and fetches. The fetches of the last are sick.
func serve(t *testing.T) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	page, err := debug.New()
	require.NoError(t, err)
	t.Cleanup(page.Close)
	for broker := range 3 {
		for _, what := range []string{"produces", "fetches"} {
			p := newPurgatory(t, fmt.Sprintf("broker %d, %s", broker, what))
			require.NoError(t, page.Add(p))
			if broker == 2 && what == "fetches" {
				sick(ctx, p, &running)
			} else {
				healthy(ctx, p, &running)
			}
		}
	}
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	return server.URL
}

const sickName = "broker 2, fetches"

func (b *browser) requireSick(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return b.eval(t, `document.querySelector("#overview tbody tr.trouble a")?.textContent`) == sickName
	}, 60*time.Second, time.Second)
}

func TestThePageIsAlive(t *testing.T) {
	url := serve(t)
	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS("section")))
	b.requireMoves(t)
	assert.Equal(t, "6", b.eval(t, `document.querySelectorAll("section[id^=p-]").length`))
	require.Eventually(t, func() bool {
		return strings.Contains(b.eval(t, `document.body.textContent`), "audit-0")
	}, 20*time.Second, 200*time.Millisecond)
	b.requireSick(t)
	assert.Equal(t, sickName, b.eval(t, `document.querySelector("section[id^=p-] h2").textContent`), "trouble comes first")
	assert.Equal(t, "6", b.eval(t, `document.querySelectorAll("#overview tbody tr").length`))
	assert.Equal(t, "▲ 1 – Purgatories", b.eval(t, `document.title`))
	assert.Equal(t, "0", b.eval(t, `document.querySelectorAll("section b b, td b").length`), "what clients say is text, not markup")

	b.do(t, chromedp.Click(chromedp.CSS("#pause")))
	still := b.eval(t, `document.getElementById("main").innerHTML`)
	time.Sleep(2 * time.Second)
	assert.Equal(t, still, b.eval(t, `document.getElementById("main").innerHTML`))
	b.do(t, chromedp.Click(chromedp.CSS("#pause")))
	if *screenshots != "" {
		time.Sleep(20 * time.Second) // for plots with something in them
	}
	for _, width := range []int64{1280, 400} {
		b.screenshot(t, fmt.Sprintf("light-%d", width), width, false)
		b.screenshot(t, fmt.Sprintf("dark-%d", width), width, true)
		b.do(t, chromedp.EmulateViewport(width, 900))
		assert.Equal(t, "true", b.eval(t, `document.documentElement.scrollWidth <= innerWidth`), "nothing hangs out at a width of %d", width)
	}
	const cut = `(document.querySelectorAll("details").forEach(d => d.open = true),
		[...document.querySelectorAll(".table")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.parentNode.id + e.textContent.slice(0, 100)).join())`
	assert.Empty(t, b.eval(t, cut), "no table is cut off at a width of 400")
	b.requireQuiet(t, url)
}

// TestALineLeadsToItsPurgatory goes from the overview to a section, and from there to a page of its own, and on.
func TestALineLeadsToItsPurgatory(t *testing.T) {
	url := serve(t)
	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 700), chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS("section")))
	b.requireSick(t)
	at := `document.getElementById("p-broker-1--produces").getBoundingClientRect().top`
	assert.Equal(t, "false", b.eval(t, at+" >= 0 && "+at+" < 100"))
	b.eval(t, `document.querySelector("#overview a[href='#p-broker-1--produces']").click()`)
	assert.Equal(t, "true", b.eval(t, at+" >= 0 && "+at+" < 100"), "the section is at the top, below the header")

	// What the reader has focused stays so while numbers change.
	b.eval(t, `document.querySelector("#p-broker-1--produces .only").focus()`)
	b.requireMoves(t)
	assert.Equal(t, "only this", b.eval(t, `document.activeElement.textContent`))
	b.eval(t, `document.querySelector("#p-broker-1--produces .only").click()`) // a click at coordinates may miss what moves
	require.Eventually(t, func() bool {
		return b.eval(t, `document.querySelectorAll("section[id^=p-]").length`) == "1"
	}, 20*time.Second, 100*time.Millisecond)
	b.requireMoves(t)
	assert.Equal(t, "broker 1, produces", b.eval(t, `document.querySelector("h2").textContent`))
	assert.Equal(t, "1", b.eval(t, `document.querySelectorAll("section[id^=p-]").length`), "news are of this one too")
	assert.Equal(t, "?name=broker+1%2C+produces&format=json", b.eval(t, `document.querySelector("nav a[data-format=json]").getAttribute("href")`))
	b.screenshot(t, "one-1280", 1280, false)

	b.do(t, chromedp.Navigate(url+"/#p-broker-0--fetches"), chromedp.WaitVisible(chromedp.CSS("section")))
	at = `document.getElementById("p-broker-0--fetches").getBoundingClientRect().top`
	assert.Equal(t, "true", b.eval(t, at+" >= 0 && "+at+" < 100"), "an anchor works when the page is opened")
	assert.Equal(t, "true", b.eval(t, `document.querySelector("#p-broker-0--fetches details").open`))
	b.requireQuiet(t, url)
}

// TestWhatNobodyChecksIsOnTop: of two purgatories whose keys nobody checks, one has no option, the other diagnostics.
// Both are above one that is well.
func TestWhatNobodyChecksIsOnTop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	well := newPurgatory(t, "well")
	healthy(ctx, well, &running)
	page, err := debug.New(well)
	require.NoError(t, err)
	t.Cleanup(page.Close)
	for name, opts := range map[string][]purgatory.Option{
		"plain":     nil,
		"attentive": {purgatory.WithDiagnostics()},
	} {
		p, err := purgatory.New[string](name, opts...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		require.NoError(t, page.Add(p))
		for n := range 40 {
			end := new(atomic.Int64)
			_, err := p.TryCompleteElseWatch(&request{offset: 1, end: end}, time.Duration(1+n)*time.Second/10, fmt.Sprintf("jobs-%d", n%3))
			require.NoError(t, err)
			end.Store(1 - int64(n%4/3)) // three of four are ready
		}
	}
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL), chromedp.WaitVisible(chromedp.CSS("section")))
	require.Eventually(t, func() bool {
		classes := b.eval(t, `[...document.querySelectorAll("#overview tbody tr")].map(r => r.className).join()`)
		return strings.HasPrefix(classes, "trouble,trouble,") // the third is well, unless the machine is busy
	}, 60*time.Second, 200*time.Millisecond)
	first := func(name string) string {
		return b.eval(t, `document.querySelector("#overview a[href='#p-`+name+`']").parentNode.querySelector("small").textContent`)
	}
	assert.Contains(t, first("plain"), "nobody had checked jobs-")
	assert.Contains(t, first("attentive"), "nobody had checked jobs-")
	if *screenshots != "" {
		time.Sleep(8 * time.Second) // for plots with something in them
	}
	for _, width := range []int64{1280, 400} {
		b.screenshot(t, fmt.Sprintf("unchecked-light-%d", width), width, false)
		b.screenshot(t, fmt.Sprintf("unchecked-dark-%d", width), width, true)
		b.do(t, chromedp.EmulateViewport(width, 900))
		assert.Equal(t, "true", b.eval(t, `document.documentElement.scrollWidth <= innerWidth`), "nothing hangs out at a width of %d", width)
	}
	b.requireQuiet(t, server.URL)
}
