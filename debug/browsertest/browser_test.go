package browsertest

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
)

var screenshots = flag.String("screenshots", "", "folder to write screenshots of the page to")

// browser is a headless Chromium, and what went wrong in it.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED: there is no chromium here, so nobody looks at the debug page (apt-get install chromium)")
	return ""
}

func open(t *testing.T) *browser {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.Headless, chromedp.UserDataDir(t.TempDir()))
	for _, flag := range []string{
		"disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars",
	} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	ctx, stopAllocator := chromedp.NewExecAllocator(ctx, opts...)
	ctx, stopBrowser := chromedp.NewContext(ctx)
	t.Cleanup(func() { stopBrowser(); stopAllocator(); stop() })
	b := &browser{ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{log.Enable, runtime.Enable} {
		_, err := chromedp.Call(ctx, enable, cdp.Empty{})
		require.NoError(t, err)
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	return b
}

// note keeps every request, and everything that a developer would see in red.
func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.errors = append(b.errors, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.errors = append(b.errors, fmt.Sprintf("console.%s", e.Type))
		}
	}
}

// requireQuiet fails if the page asked for anything from elsewhere, or complained.
func (b *browser) requireQuiet(t *testing.T, origin string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.errors)
	require.Greater(t, len(b.requests), 1, "the page did not ask for news")
	for _, url := range b.requests {
		require.True(t, strings.HasPrefix(url, origin) || url == "data:,", "request to elsewhere: %s", url)
	}
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(b.ctx, steps...))
}

func (b *browser) eval(t *testing.T, js string) string {
	t.Helper()
	answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+js+")"))
	require.NoError(t, err)
	return answer
}

// requireMoves waits until the value of a tile is another one than now, without a reload.
func (b *browser) requireMoves(t *testing.T, tile string) {
	t.Helper()
	b.eval(t, "window.notReloaded = true")
	js := fmt.Sprintf(`[...document.querySelectorAll(".tile")].filter(t => t.lastChild.textContent === %q).map(t => t.firstChild.textContent).join()`, tile)
	before := b.eval(t, js)
	require.NotEmpty(t, before)
	require.Eventually(t, func() bool { return b.eval(t, js) != before }, 20*time.Second, 200*time.Millisecond, "%s stays %s", tile, before)
	require.Equal(t, "true", b.eval(t, "window.notReloaded"))
}

func (b *browser) screenshot(t *testing.T, name string, width int64, dark bool) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(t, chromedp.EmulateViewport(width, 900))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(t, err)
	time.Sleep(300 * time.Millisecond)
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
}

func TestThePageIsAlive(t *testing.T) {
	produces, fetches := newPurgatory(t, "broker 0, produces"), newPurgatory(t, "broker 0, fetches")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	healthy(ctx, produces, &running)
	sick(ctx, fetches, &running)
	page := debug.Handler(produces, fetches)
	t.Cleanup(page.Close)
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)

	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL), chromedp.WaitVisible(chromedp.CSS("section")))
	b.requireMoves(t, "ended / s")
	assert.Equal(t, "2", b.eval(t, `document.querySelectorAll("section").length`))
	assert.Contains(t, b.eval(t, `document.querySelector("h2").textContent`), "produces")
	require.Eventually(t, func() bool {
		return strings.Contains(b.eval(t, `document.body.textContent`), "audit-0")
	}, 20*time.Second, 200*time.Millisecond)
	require.Eventually(t, func() bool { return b.eval(t, `document.querySelectorAll(".note.trouble").length`) == "1" }, 30*time.Second, time.Second)
	assert.Equal(t, "0", b.eval(t, `document.querySelectorAll("section b b, td b").length`), "what operations say is text, not markup")

	b.do(t, chromedp.Click(chromedp.CSS("#pause")))
	still := b.eval(t, `document.getElementById("main").innerHTML`)
	time.Sleep(2 * time.Second)
	assert.Equal(t, still, b.eval(t, `document.getElementById("main").innerHTML`))
	b.do(t, chromedp.Click(chromedp.CSS("#pause")))
	if *screenshots != "" {
		time.Sleep(20 * time.Second) // for plots with something in them
	}
	for _, width := range []int64{1280, 390} {
		b.screenshot(t, fmt.Sprintf("light-%d", width), width, false)
		b.screenshot(t, fmt.Sprintf("dark-%d", width), width, true)
		b.do(t, chromedp.EmulateViewport(width, 900))
		assert.Equal(t, "true", b.eval(t, `document.documentElement.scrollWidth <= innerWidth`), "nothing hangs out at a width of %d", width)
	}
	b.requireQuiet(t, server.URL)
}
