package debug

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

var many = flag.Bool("many", false, "200,000 pending operations where a tenth will do; a minute under the race detector")

var described atomic.Int64 // calls of String

type fetch struct {
	operation.DelayedOperation
	ready bool
	says  string
}

func (f *fetch) TryComplete() bool { return f.ready }
func (f *fetch) OnComplete()       {}
func (f *fetch) OnExpiration()     {}
func (f *fetch) String() string    { described.Add(1); return f.says }

// pageOf returns a page that shows sources.
func pageOf(sources ...Source) *Page { return pageWith(Options{}, sources...) }

func pageWith(opts Options, sources ...Source) *Page {
	p, err := NewWithOptions(opts, sources...)
	if err != nil {
		panic(err)
	}
	return p
}

type fetches = *purgatory.Purgatory[string]

func newFetches(t *testing.T, opts ...purgatory.Option) fetches {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string]("fetches", append(opts, purgatory.WithTimer(clock))...)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func submit(t *testing.T, p fetches, timeout time.Duration, says string, keys ...string) *fetch {
	t.Helper()
	f := &fetch{says: says}
	_, err := p.TryCompleteElseWatch(f, timeout, keys...)
	require.NoError(t, err)
	return f
}

func get(t *testing.T, page *Page, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	t.Cleanup(page.Close)
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

// TestJSONOfKnownContent: what is shown is what is there.
func TestJSONOfKnownContent(t *testing.T) {
	p := newFetches(t, purgatory.WithHistograms(), purgatory.WithKeyStats(64))
	for range 4 {
		submit(t, p, time.Second, "", "quiet")
	}
	done := submit(t, p, time.Minute, "", "busy")
	submit(t, p, time.Hour, "fetch 7", "busy", "idle")
	p.AdvanceClock(3 * time.Second)
	done.ready = true
	require.Equal(t, 1, p.CheckAndComplete("busy"))

	w := get(t, pageOf(p), "/?format=json")
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var v View
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	require.Len(t, v.Purgatories, 1)
	got := v.Purgatories[0]
	assert.Equal(t, "fetches", got.Name)
	assert.EqualValues(t, 1, got.Pending)
	assert.EqualValues(t, 2, got.Watched)
	assert.EqualValues(t, 6, got.Accepted)
	assert.Equal(t, map[string]int64{"satisfied": 1, "forced": 0, "expired": 4, "cancelled": 0, "closed": 0}, got.Ended)
	assert.EqualValues(t, 2, got.Checks)
	assert.EqualValues(t, 1, got.WastedChecks)
	assert.True(t, got.Timed)
	assert.InDelta(t, 3, got.OldestAge, 0.2)
	assert.InDelta(t, 4, got.Waited["expired"].Sum, 0.01)
	assert.Len(t, got.Late.Counts, len(got.Late.Bounds)+1)
	require.Len(t, got.History, 1)
	assert.EqualValues(t, 1, got.History[0].Pending)
	assert.Empty(t, got.History[0].Ended)
	assert.Nil(t, got.Rates)
	assert.Equal(t, 1, got.Timer.Pending)
	require.NotEmpty(t, got.Hot)
	require.Len(t, got.Expiring, 1)
	assert.Equal(t, KeyView{Key: "quiet", Watched: 4, Ended: map[string]int64{"expired": 4}, OnlyTimeouts: true}, got.Expiring[0])
	require.Len(t, got.Oldest, 1)
	assert.Equal(t, "fetch 7", got.Oldest[0].Text)
	assert.Equal(t, 2, got.Oldest[0].Keys)
	require.Len(t, got.Notes, 1)
	assert.Equal(t, "trouble", got.Notes[0].Level)
	assert.Equal(t, "trouble", got.State)
	assert.Contains(t, got.Notes[0].Text, "by timeout")
}

const evil = "</script><script>alert(1)</script>\x1b[2J\u2028'\"`${x}\xff"

func TestWhatClientsSentIsEscapedEverywhere(t *testing.T) {
	p := newFetches(t, purgatory.WithKeyStats(64))
	submit(t, p, time.Hour, evil, evil)
	page := pageOf(p)
	html := get(t, page, "/", "Accept", "text/html").Body.String()
	assert.NotContains(t, html, "<script>alert")
	assert.Equal(t, 1, strings.Count(html, "<script"), "the page's own and no other")
	assert.NotContains(t, html, "\x1b")
	assert.NotContains(t, html, "\u2028")
	text := get(t, page, "/").Body.String()
	assert.NotContains(t, text, "\x1b", "a terminal would obey")
	assert.Contains(t, text, `\x1b[2J`)
	var v View
	require.NoError(t, json.Unmarshal(get(t, page, "/?format=json").Body.Bytes(), &v))
	assert.Equal(t, strings.ToValidUTF8(evil, "\uFFFD"), v.Purgatories[0].Oldest[0].Text)
}

func TestTheAcceptHeaderChoosesTheFormat(t *testing.T) {
	page := pageOf(newFetches(t))
	for _, c := range []struct{ target, accept, contentType string }{
		{"/", "*/*", "text/plain; charset=utf-8"},
		{"/", "", "text/plain; charset=utf-8"},
		{"/", "text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"},
		{"/", "application/json", "application/json"},
		{"/?format=text", "text/html", "text/plain; charset=utf-8"},
		{"/?format=html", "*/*", "text/html; charset=utf-8"},
	} {
		w := get(t, page, c.target, "Accept", c.accept)
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, c.contentType, w.Header().Get("Content-Type"), "%+v", c)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
	assert.Equal(t, http.StatusBadRequest, get(t, page, "/?format=xml").Code)
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestThePageAllowsNothingButItself(t *testing.T) {
	page := pageOf(newFetches(t))
	policy := get(t, page, "/?format=html").Header().Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "unsafe")
	assert.NotEqual(t, policy, get(t, page, "/?format=html").Header().Get("Content-Security-Policy"), "a nonce is used once")
	html := get(t, page, "/?format=html").Body.String()
	assert.NotContains(t, html, " style=")
	assert.NotContains(t, strings.ReplaceAll(html, svgNamespace, ""), "http", "nothing from elsewhere")
}

const svgNamespace = "http://www.w3.org/2000/svg"

func TestHiddenMeansThatNobodyAsks(t *testing.T) {
	p := newFetches(t, purgatory.WithKeyStats(64))
	submit(t, p, time.Hour, "secret operation", "secret key")
	page := pageWith(Options{HideDetails: true}, p)
	before := described.Load()
	for _, f := range []string{"html", "json", "text"} {
		body := get(t, page, "/?format="+f).Body.String()
		assert.NotContains(t, body, "secret")
		assert.Contains(t, body, "fetches")
	}
	assert.Equal(t, before, described.Load())
}

// TestManyPendingCostNoMoreThanAFew counts what is looked at, and what is written.
func TestManyPendingCostNoMoreThanAFew(t *testing.T) {
	n := 20_000 // five times as many as are looked at
	if *many {
		n = 200_000
	}
	p := newFetches(t, purgatory.WithHistograms(), purgatory.WithKeyStats(512))
	all := make([]fetch, n)
	for i := range all {
		all[i].says = "fetch"
		timeout := time.Duration(1+i) * time.Millisecond
		_, err := p.TryCompleteElseWatch(&all[i], timeout, fmt.Sprintf("partition-%d", i%1000))
		require.NoError(t, err)
	}
	page := pageWith(Options{Rows: 20}, p)
	before := described.Load()
	var v View
	w := get(t, page, "/?format=json")
	assert.Less(t, w.Body.Len(), 32<<10)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	assert.EqualValues(t, 20, described.Load()-before, "as many as the table has rows")
	assert.LessOrEqual(t, v.Purgatories[0].Looked, 4096)
	assert.Equal(t, n, v.Purgatories[0].Timer.Pending)
}

func TestNobodyLooksNobodySamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFetches(t)
		page := pageOf(p)
		time.Sleep(time.Hour)
		assert.Nil(t, page.mu.stop, "it starts with the first request")
		get(t, page, "/")
		time.Sleep(10*time.Second + time.Millisecond)
		assert.Len(t, page.view(nil).Purgatories[0].History, 11)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Nil(t, page.mu.stop, "it has ended by itself")
		get(t, page, "/")
		time.Sleep(time.Minute)
		page.Close()
		page.Close()
		synctest.Wait() // the bubble fails if a goroutine is left
		get(t, page, "/")
		assert.Nil(t, page.mu.stop)
		one := page.view(nil).Purgatories[0]
		assert.Empty(t, one.History, "what was sampled is old")
		assert.Zero(t, one.Window.Seconds)
	})
}

func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := pageWith(Options{Idle: -1})
		p := newFetches(t)
		require.NoError(t, page.Add(p))
		time.Sleep(time.Hour)
		assert.Len(t, page.view(nil).Purgatories[0].History, history)
		page.Remove(p)
		assert.Empty(t, page.view(nil).Purgatories)
		page.Close()
	})
}
