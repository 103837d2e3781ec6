package browsertest

import (
	"context"
	"flag"
	"fmt"
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
	"github.com/stretchr/testify/require"
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
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.requests) > 1
	}, time.Minute, 50*time.Millisecond, "the page did not ask for news")
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.errors)
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

// requireMoves waits until the rate at which operations end is another one than now, without a reload.
func (b *browser) requireMoves(t *testing.T) {
	t.Helper()
	b.eval(t, "window.notReloaded = true")
	const js = `[...document.querySelectorAll(".tile")].filter(t => t.lastChild.textContent === "ended / s").map(t => t.firstChild.textContent).join()`
	before := b.eval(t, js)
	require.NotEmpty(t, before)
	require.Eventually(t, func() bool { return b.eval(t, js) != before }, 20*time.Second, 200*time.Millisecond, "it stays %s", before)
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
