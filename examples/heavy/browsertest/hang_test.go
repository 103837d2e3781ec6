package browsertest

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
)

// serveUntil serves a page whose server accepts requests and answers none, once hangs is set. It counts those that ask for news.
func serveUntil(t *testing.T, hangs *atomic.Bool) (url string, asked *atomic.Int64) {
	t.Helper()
	page, err := debug.New(newPurgatory(t, "produces"))
	require.NoError(t, err)
	t.Cleanup(page.Close)
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") == "json" {
			asked.Add(1)
		}
		if hangs.Load() {
			<-r.Context().Done()
			return
		}
		page.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// TestThePageSaysThatTheServerHangs: numbers that are old must not look live.
func TestThePageSaysThatTheServerHangs(t *testing.T) {
	var hangs atomic.Bool
	url, asked := serveUntil(t, &hangs)
	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS("section")))
	require.Eventually(t, func() bool { return asked.Load() > 0 }, 20*time.Second, 100*time.Millisecond)
	state := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return b.eval(t, `document.getElementById("state").textContent`) == want }, 30*time.Second, 200*time.Millisecond)
	}
	state("live")
	hangs.Store(true)
	state("no answer")
	hangs.Store(false)
	state("live")
}

// TestAnAddressThatIsNoAnchorStopsNothing: the fragment may be anything.
func TestAnAddressThatIsNoAnchorStopsNothing(t *testing.T) {
	url, asked := serveUntil(t, new(atomic.Bool))
	b := open(t)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url+"/#%zz"), chromedp.WaitVisible(chromedp.CSS("section")))
	require.Eventually(t, func() bool { return asked.Load() > 1 }, 20*time.Second, 100*time.Millisecond, "the page asks for no news")
	b.requireQuiet(t, url)
}
