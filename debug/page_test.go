package debug

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

var many = flag.Bool("many", false, "200,000 pending operations where a tenth will do; a minute under the race detector")

type fetch struct {
	operation.DelayedOperation
	ready bool
}

func (f *fetch) TryComplete() bool { return f.ready }
func (f *fetch) OnComplete()       {}
func (f *fetch) OnExpiration()     {}

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

func submit(t *testing.T, p fetches, timeout time.Duration, keys ...string) *fetch {
	t.Helper()
	f := &fetch{}
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

// What is shown is what is there, in the JSON and in the text.
func TestThePageShowsKnownContent(t *testing.T) {
	p := newFetches(t, purgatory.WithDiagnostics())
	for range 4 {
		submit(t, p, time.Second, "quiet")
	}
	done := submit(t, p, time.Minute, "busy")
	submit(t, p, 2*time.Second, "busy")
	submit(t, p, time.Hour, "busy", "idle")
	submit(t, p, purgatory.NoTimeout, "jobs")
	p.CheckAndComplete("busy")
	p.AdvanceClock(3 * time.Second)
	done.ready = true
	require.Equal(t, 1, p.CheckAndComplete("busy"))

	page := pageOf(p)
	w := get(t, page, "/?format=json")
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var v View
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	require.Len(t, v.Purgatories, 1)
	got := v.Purgatories[0]
	assert.Equal(t, "fetches", got.Name)
	assert.Equal(t, p.Stats(), got.Stats)
	assert.EqualValues(t, 4, got.Stats.Unchecked)
	require.Len(t, got.History, 1)
	assert.EqualValues(t, 2, got.History[0].Pending)
	assert.Equal(t, []int64{1, 0, 5, 0, 0}, got.History[0].Ended)
	assert.Zero(t, got.Seconds)
	assert.Zero(t, got.Before)
	in := got.Inspection
	require.NotNil(t, in)
	require.Len(t, in.Oldest, 2)
	assert.Equal(t, []purgatory.ExpiryReport{{Type: "*debug.fetch", Key: "quiet", Age: time.Second}}, in.Unchecked)
	assert.Equal(t, []purgatory.ExpiryReport{{Type: "*debug.fetch", Key: "busy", Age: 2 * time.Second, Checks: 1}}, in.NeverTrue)
	assert.Equal(t, "trouble", got.State)
	require.Len(t, got.Notes, 1)
	assert.Contains(t, got.Notes[0].Text, "4 operations have expired since start, and nobody had checked quiet since")
	assert.Empty(t, v.More)

	text := get(t, page, "/").Body.String()
	for _, want := range []string{
		"== \"fetches\"\nTROUBLE: 4 operations have expired", "\npending 2 under 3 keys; 8 accepted, 0 rejected (0 closed, 0 full, 0 input)\nended   1 satisfied, 0 forced, 5 expired (4 unchecked), 0 cancelled, 0 closed; 0 panics\n", "waited  expired: 5, half of them ≤ 1.02s, 99 % ≤ 2.05s\n",
		"checks  5, 4 of them found nothing; 0 signals; 3 watches, 0 stale", "\noldest operations:\n  3s ", "  3s  59m57s left  ", "  3s  no timeout   \"jobs\"  *debug.fetch\n",
	} {
		assert.Contains(t, text, want)
	}
	assert.Contains(t, get(t, pageOf(newFetches(t)), "/").Body.String(), "\nNot known: how long operations waited. WithDiagnostics counts it.\n")
}

// Of a sample, the page says how large it is. What a histogram cannot tell it does not tell.
func TestTheTextSaysWhatItDoesNotKnow(t *testing.T) {
	p := PurgatoryView{Inspection: &purgatory.Inspection{Looked: 4096, Oldest: []purgatory.OperationReport{{Age: time.Minute}}}}
	p.Stats.Watched, p.Stats.Waited = 5000, new([operation.NumOutcomes]purgatory.Histogram)
	p.Stats.Waited[operation.Forced].Counts[len(purgatory.Histogram{}.Counts)-1] = 3
	var text strings.Builder
	printView(&text, View{Purgatories: []PurgatoryView{p}})
	assert.Contains(t, text.String(), "oldest of 4096 watches that were looked at, of 5000; the oldest of all has waited ≥ 1m0s:\n")
	assert.Contains(t, text.String(), "waited  forced: 3, half of them longer than can be told, 99 % longer than can be told\n")
	text.Reset()
	p.Stats.Stale = 904
	printView(&text, View{Purgatories: []PurgatoryView{p}})
	assert.Contains(t, text.String(), "oldest operations:\n")
}

// A server in which nobody checks: with no option, and no look before this one.
func TestNobodyChecks(t *testing.T) {
	p := newFetches(t)
	submit(t, p, time.Second, "orders-0")
	page := pageOf(p)
	assert.Equal(t, stateOK, page.view(nil).Purgatories[0].State)
	p.AdvanceClock(2 * time.Second)
	sick := page.view(nil).Purgatories[0]
	require.Len(t, sick.Notes, 1)
	assert.Equal(t, stateTrouble, sick.State)
	assert.Contains(t, sick.Notes[0].Text, "nobody had checked orders-0 since")
}

const evil = "</script><script>alert(1)</script>\x1b[2J\u2028'\"`${x}\xff"

func TestWhatClientsSentIsEscapedEverywhere(t *testing.T) {
	p := newFetches(t)
	submit(t, p, time.Hour, evil)
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
	assert.Equal(t, strings.ToValidUTF8(evil, "\uFFFD"), v.Purgatories[0].Inspection.Oldest[0].Key)
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

// Whatever there is to say, and whatever was sampled before: what clients have sent, and what an engine has said, is nowhere.
func TestHiddenDetailsAreNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFetches(t, purgatory.WithMaxPending(30))
		for i := range 16 {
			submit(t, p, time.Second, "secret key")
			if i%2 == 0 { // nobody checks the others
				p.CheckAndComplete("secret key")
			}
			p.AdvanceClock(2 * time.Second)
		}
		for range 40 {
			_, _ = p.TryCompleteElseWatch(new(fetch), time.Hour, "secret key")
		}
		line, err := queue.New[int](queue.WithMaxWaiting(60))
		require.NoError(t, err)
		for range 40 {
			_, _ = line.Start(time.Hour, nil, queue.Place{Tenant: "secret tenant"})
			_ = line.Put(1, queue.Place{Tenant: "secret tenant", Kinds: []string{"other"}})
		}
		hints := healthySource()
		hints.Standing, hints.Ends, hints.Err, hints.Blind = false, 7, errors.New("secret address"), "secret bucket"
		mark := watermark.New(p, "secret key", 0)
		page := pageWith(Options{HideDetails: true, Idle: -1}, p, &stranger{name: "panics", stats: func() purgatory.Stats { panic("secret text") }})
		require.NoError(t, page.AddQueue("line", line))
		require.NoError(t, page.AddSignals(&fixedSource{hints}))
		require.NoError(t, page.AddWatermark("mark", mark))
		for range 30 {
			time.Sleep(time.Second)
			for _, f := range []string{"html", "json", "text"} {
				body := get(t, page, "/?format="+f).Body.String()
				assert.NotContains(t, body, "secret", f)
				assert.Contains(t, body, "fetches")
			}
		}
		page.Close()
		line.Close(nil)
	})
}

// TestManyPendingCostNoMoreThanAFew counts what is looked at, and what is written.
func TestManyPendingCostNoMoreThanAFew(t *testing.T) {
	n := 20_000 // five times as many as are looked at
	if *many {
		n = 200_000
	}
	p := newFetches(t, purgatory.WithDiagnostics())
	all := make([]fetch, n)
	for i := range all {
		timeout := time.Duration(1+i) * time.Millisecond
		_, err := p.TryCompleteElseWatch(&all[i], timeout, fmt.Sprintf("partition-%d", i%1000))
		require.NoError(t, err)
	}
	page := pageWith(Options{Rows: 20}, p)
	var v View
	w := get(t, page, "/?format=json")
	assert.Less(t, w.Body.Len(), 32<<10)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	in := v.Purgatories[0].Inspection
	assert.LessOrEqual(t, in.Looked, 4096)
	assert.Len(t, in.Oldest, 20)
	assert.Equal(t, n/1000, in.Waiting)
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
		assert.Zero(t, one.Seconds)
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
