package prometheus

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

type produce struct {
	operation.DelayedOperation
	ready bool
}

func (p *produce) TryComplete() bool { return p.ready }
func (p *produce) OnComplete()       {}
func (p *produce) OnExpiration()     {}

func newPurgatory[K comparable](t *testing.T, name string, opts ...purgatory.Option) *purgatory.Purgatory[K] {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[K](name, append(opts, purgatory.WithTimer(clock))...)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// used returns a purgatory named produce, with one operation that expired, one that was satisfied after 3 ms, one that waits.
func used(t *testing.T, opts ...purgatory.Option) *purgatory.Purgatory[string] {
	t.Helper()
	p := newPurgatory[string](t, "produce", opts...)
	satisfied := &produce{}
	for op, timeout := range map[*produce]time.Duration{satisfied: time.Minute, {}: time.Second, {}: time.Hour} {
		_, err := p.TryCompleteElseWatch(op, timeout, "a")
		require.NoError(t, err)
	}
	p.AdvanceClock(3 * time.Millisecond)
	satisfied.ready = true
	require.Equal(t, 1, p.CheckAndComplete("a"))
	p.AdvanceClock(2 * time.Second)
	return p
}

// scrape returns what Prometheus would get.
func scrape(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestTheLinterFindsNothing(t *testing.T) {
	c, err := New(used(t, purgatory.WithDiagnostics()), newPurgatory[int](t, "fetch"))
	require.NoError(t, err)
	require.NoError(t, c.AddSignals(said{Name: "nats"}))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	problems, err = testutil.GatherAndLint(r)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestMetricsSayWhatStatsSay(t *testing.T) {
	c, err := New(used(t, purgatory.WithDiagnostics()))
	require.NoError(t, err)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP purgatory_pending_operations Operations that wait: accepted and not ended.
# TYPE purgatory_pending_operations gauge
purgatory_pending_operations{purgatory="produce"} 1
# HELP purgatory_accepted_operations_total Operations that were accepted, those included that did not have to wait.
# TYPE purgatory_accepted_operations_total counter
purgatory_accepted_operations_total{purgatory="produce"} 3
# HELP purgatory_ended_operations_total Operations that ended, by outcome: satisfied, forced, expired, cancelled, closed.
# TYPE purgatory_ended_operations_total counter
purgatory_ended_operations_total{outcome="cancelled",purgatory="produce"} 0
purgatory_ended_operations_total{outcome="closed",purgatory="produce"} 0
purgatory_ended_operations_total{outcome="expired",purgatory="produce"} 1
purgatory_ended_operations_total{outcome="forced",purgatory="produce"} 0
purgatory_ended_operations_total{outcome="satisfied",purgatory="produce"} 1
# HELP purgatory_wasted_checks_total Tries of waiting operations that said no.
# TYPE purgatory_wasted_checks_total counter
purgatory_wasted_checks_total{purgatory="produce"} 2
`), "purgatory_pending_operations", "purgatory_accepted_operations_total", "purgatory_ended_operations_total", "purgatory_wasted_checks_total"))
}

func TestHistogramsAreCumulativeAndInSeconds(t *testing.T) {
	c, err := New(used(t, purgatory.WithDiagnostics()))
	require.NoError(t, err)
	text := scrape(t, c)
	for _, line := range []string{
		`purgatory_wait_seconds_bucket{outcome="satisfied",purgatory="produce",le="0.002"} 0`,
		`purgatory_wait_seconds_bucket{outcome="satisfied",purgatory="produce",le="0.004"} 1`,
		`purgatory_wait_seconds_bucket{outcome="satisfied",purgatory="produce",le="+Inf"} 1`,
		`purgatory_wait_seconds_sum{outcome="satisfied",purgatory="produce"} 0.003`,
		`purgatory_wait_seconds_count{outcome="expired",purgatory="produce"} 1`,
	} {
		assert.Contains(t, text, line+"\n")
	}
}

func TestWithoutDiagnosticsThereAreNoHistograms(t *testing.T) {
	c, err := New(used(t))
	require.NoError(t, err)
	assert.Zero(t, testutil.CollectAndCount(c, "purgatory_wait_seconds"))
}

func TestNamesTellPurgatoriesApart(t *testing.T) {
	a, b := newPurgatory[string](t, "a"), newPurgatory[int](t, "b")
	c, err := New(a, b)
	require.NoError(t, err)
	assert.Equal(t, 2, testutil.CollectAndCount(c, "purgatory_keys"))
	_, err = New(a, newPurgatory[string](t, "a"))
	require.ErrorIs(t, err, ErrName)
	require.ErrorIs(t, c.Add(nil), ErrNilSource)
	c.Remove("a")
	require.NoError(t, c.Add(newPurgatory[string](t, "a")))
}

// TestDashboardAndAlertsNameWhatThereIs: a metric that was renamed would leave an empty panel.
func TestDashboardAndAlertsNameWhatThereIs(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	require.NoError(t, c.AddSignals(said{Name: "nats"}))
	require.NoError(t, c.AddQueue("jobs", counted{Tenants: map[string]queue.Tenant{"hog": {Waiting: hogMany, Items: hogMany}}}))
	require.NoError(t, c.AddWatermark("replicated", come{}))
	require.NoError(t, c.Add(fixed(everything())))
	text := scrape(t, c)
	for _, file := range []string{"dashboard.json", "alerts.yaml"} {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		names := 0
		for _, word := range bytes.FieldsFunc(content, func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) {
			if bytes.HasPrefix(word, []byte("purgatory_")) {
				names++
				assert.Contains(t, text, string(word)+"{", "%s names %s", file, word)
			}
		}
		assert.Positive(t, names)
	}
}

// TestTheDocumentationCountsTheSeries, because users of hosted Prometheus pay for each series.
func TestTheDocumentationCountsTheSeries(t *testing.T) {
	series := func(c prometheus.Collector) (n int) {
		for line := range strings.Lines(scrape(t, c)) {
			if !strings.HasPrefix(line, "#") {
				n++
			}
		}
		return n
	}
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	few, err := New(newPurgatory[string](t, "p"))
	require.NoError(t, err)
	all, err := New(newPurgatory[string](t, "p", purgatory.WithDiagnostics()))
	require.NoError(t, err)
	histograms := testutil.CollectAndCount(all, "purgatory_wait_seconds")
	classic := histograms * (len(purgatory.Histogram{}.Counts) + 2) // buckets, sum, count
	none, err := New()
	require.NoError(t, err)
	require.NoError(t, none.AddSignals(said{Name: "nats"}))
	for _, says := range []string{
		fmt.Sprintf("%d series a purgatory, %d with `WithDiagnostics`, %d where the server scrapes native histograms", series(few), series(all), series(all)-classic+histograms),
		fmt.Sprintf("%d series a source of hints, %d a line, %d a watermark", series(none), len(queueMetrics), len(watermarkMetrics)),
	} {
		assert.Contains(t, string(text), says, "docs/operations.md")
	}
}
