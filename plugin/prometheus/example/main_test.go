package main

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/plugin/prometheus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// scrape returns the metrics by name, nil if there is no answer.
func scrape(url string) map[string]*dto.MetricFamily {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return nil
	}
	return families
}

// ended returns the histogram of the waits that ended in a way.
func ended(families map[string]*dto.MetricFamily, outcome string) *dto.Histogram {
	for _, m := range families["purgatory_wait_seconds"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "outcome" && label.GetValue() == outcome {
				return m.GetHistogram()
			}
		}
	}
	return nil
}

// waited returns how many waits lasted for more than a millisecond.
func waited(h *dto.Histogram) uint64 {
	if len(h.GetBucket()) == 0 {
		return 0
	}
	return h.GetSampleCount() - h.GetBucket()[0].GetCumulativeCount()
}

// start runs the example until the test ends, or until stop, which waits for it.
func start(t *testing.T, opts prometheus.Options) (url string, stop func()) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	urls, failed := make(chan string, 1), make(chan error, 1)
	go func() { failed <- run(ctx, "127.0.0.1:0", opts, func(url string) { urls <- url }) }()
	stop = sync.OnceFunc(func() {
		interrupt()
		require.NoError(t, <-failed)
	})
	t.Cleanup(stop)
	select {
	case url = <-urls:
	case <-time.After(time.Minute):
		t.Fatal("the example cannot be scraped")
	}
	return url, stop
}

// TestTheExampleShowsAHealthyPurgatory: requests wait, most until there is news, some until their timeout, and nobody
// refuses any.
func TestTheExampleShowsAHealthyPurgatory(t *testing.T) {
	url, stop := start(t, prometheus.Options{})
	require.Eventually(t, func() bool {
		families := scrape(url)
		satisfied, expired := ended(families, "satisfied"), ended(families, "expired")
		pending := families["purgatory_pending_operations"].GetMetric()
		return waited(satisfied) > 100 && waited(satisfied) > 2*expired.GetSampleCount() && waited(expired) > 0 &&
			len(pending) == 1 && pending[0].GetGauge().GetValue() > 0
	}, time.Minute, 100*time.Millisecond)
	for _, m := range scrape(url)["purgatory_rejected_operations_total"].GetMetric() {
		require.Zero(t, m.GetCounter().GetValue())
	}
	stop()
}
