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
	c, err := New(used(t, purgatory.WithHistograms()), newPurgatory[int](t, "fetch"))
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
	c, err := New(used(t, purgatory.WithHistograms()))
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
	c, err := New(used(t, purgatory.WithHistograms()))
	require.NoError(t, err)
	text := scrape(t, c)
	for _, line := range []string{
		`purgatory_wait_seconds_bucket{outcome="satisfied",purgatory="produce",le="0.002"} 0`,
		`purgatory_wait_seconds_bucket{outcome="satisfied",purgatory="produce",le="0.004"} 1`,
		`purgatory_wait_seconds_bucket{outcome="satisfied",purgatory="produce",le="+Inf"} 1`,
		`purgatory_wait_seconds_sum{outcome="satisfied",purgatory="produce"} 0.003`,
		`purgatory_wait_seconds_count{outcome="expired",purgatory="produce"} 1`,
		`purgatory_expiry_lateness_seconds_bucket{purgatory="produce",le="0.000125"} 1`,
		`purgatory_pending_operations_by_age{age="1.024",purgatory="produce"} 0`,
		`purgatory_pending_operations_by_age{age="4.096",purgatory="produce"} 1`,
	} {
		assert.Contains(t, text, line+"\n")
	}
}

func TestWithoutHistogramsThereAreNone(t *testing.T) {
	c, err := New(used(t))
	require.NoError(t, err)
	assert.Zero(t, testutil.CollectAndCount(c, "purgatory_wait_seconds", "purgatory_oldest_operation_age_seconds"))
}

// TestUntimedCallbacksHaveNoTimes: a 0 would say that no callback is stuck.
func TestUntimedCallbacksHaveNoTimes(t *testing.T) {
	times := []string{"oldest_running_callback_seconds{", "stuck_callbacks{", "slow_callbacks_total{"}
	text := scrape(t, fixed{&Collector{}, &purgatory.Stats{Running: 9, Due: 3, OldestDue: time.Second}})
	assert.Contains(t, text, `purgatory_running_callbacks{purgatory="p"} 9`)
	for _, name := range times {
		assert.NotContains(t, text, name)
	}
	text = scrape(t, fixed{&Collector{}, &purgatory.Stats{CallbacksTimed: true}})
	for _, name := range times {
		assert.Contains(t, text, name+`purgatory="p"} 0`)
	}
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
	text := scrape(t, c) + scrape(t, fixed{c, everything(t)})
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
	all, err := New(newPurgatory[string](t, "p", purgatory.WithHistograms()))
	require.NoError(t, err)
	most, err := New(newPurgatory[string](t, "p", purgatory.WithHistograms(), purgatory.WithSlowCallback(time.Hour)))
	require.NoError(t, err)
	histograms := testutil.CollectAndCount(all, "purgatory_wait_seconds", "purgatory_expiry_lateness_seconds")
	classic := histograms * (purgatory.HistogramBuckets + 2) // buckets, sum, count
	none, err := New()
	require.NoError(t, err)
	require.NoError(t, none.AddSignals(said{Name: "nats", QueueUsed: -1}))
	for _, says := range []string{
		fmt.Sprintf("%d to %d series a purgatory", series(few), series(most)),
		fmt.Sprintf("It has %d series with its name", series(none)),
		fmt.Sprintf("A purgatory has %d series without histograms, %d with them, and %d where", series(few), series(all), series(all)-classic+histograms),
	} {
		assert.Contains(t, string(text), says, "docs/operations.md")
	}
}

// stuck is an operation whose callback does not return until it may.
type stuck struct {
	operation.DelayedOperation
	may chan struct{}
}

func (s *stuck) TryComplete() bool { return false }
func (s *stuck) OnComplete()       { <-s.may }
func (s *stuck) OnExpiration()     {}

// TestStuckWorkersAreMeasured has 40 operations expire whose callbacks block both workers.
func TestStuckWorkersAreMeasured(t *testing.T) {
	p, err := purgatory.New[string]("p", purgatory.WithExpiryWorkers(2), purgatory.WithSlowCallback(20*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	may := make(chan struct{})
	t.Cleanup(func() { close(may) })
	for range 40 {
		_, err := p.TryCompleteElseWatch(&stuck{may: may}, 5*time.Millisecond, "a")
		require.NoError(t, err)
	}
	c, err := New(p)
	require.NoError(t, err)
	value := func(name string) (v float64) {
		_, rest, _ := strings.Cut(scrape(t, c), "\npurgatory_"+name+`{purgatory="p"} `)
		_, err := fmt.Sscan(rest, &v)
		require.NoError(t, err, name)
		return v
	}
	require.Eventually(t, func() bool {
		return value("oldest_due_operation_seconds") > 0.1 && value("oldest_running_callback_seconds") > 0.1 && value("stuck_callbacks") == 2 && value("due_operations") > 20
	}, time.Minute, 20*time.Millisecond)
	assert.InDelta(t, 2, value("running_callbacks"), 0)
	assert.Zero(t, value(`slow_callbacks_total`))
}
