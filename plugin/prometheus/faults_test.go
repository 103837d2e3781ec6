package prometheus

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/faults"
	"github.com/delayedop/purgatory/purgatory"
)

// A day that promtool is asked about: what was scraped, and what should have fired.
type day struct {
	series strings.Builder
	fires  strings.Builder
}

const (
	scrapes  = 30 * time.Second
	sickFor  = 20 * time.Minute
	wellFor  = 20 * time.Minute
	goneFor  = 40 * time.Minute // afterwards; rates look back for half an hour
	question = `count by (name, alertname) (label_join(ALERTS{alertstate="firing"}, "name", "", "purgatory", "watermark", "queue"))`
)

// scraped runs a server for a while, in a bubble, and adds what Prometheus gets.
func (d *day) scraped(t *testing.T, s *faults.Server, length time.Duration) {
	t.Helper()
	values := make(map[string][]string)
	synctest.Test(t, func(t *testing.T) {
		running, err := s.Run(purgatory.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		require.NoError(t, err)
		defer running.Stop()
		c, err := New(running.Purgatory)
		require.NoError(t, err)
		if running.Watermark != nil {
			require.NoError(t, c.AddWatermark(s.Name, running.Watermark))
		}
		if running.Line != nil {
			require.NoError(t, c.AddQueue(s.Name, running.Line))
		}
		r := prometheus.NewPedanticRegistry()
		require.NoError(t, r.Register(c))
		for range length/scrapes + 1 {
			all, err := r.Gather()
			require.NoError(t, err)
			for _, family := range all {
				for _, m := range family.GetMetric() {
					var labels []string
					for _, l := range m.GetLabel() {
						labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
					}
					series := fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(labels, ","))
					values[series] = append(values[series], fmt.Sprint(m.GetGauge().GetValue()+m.GetCounter().GetValue()))
				}
			}
			time.Sleep(scrapes)
		}
	})
	for series, of := range values { // and then the server is gone
		fmt.Fprintf(&d.series, "      - {series: '%s', values: '%s stale'}\n", strings.ReplaceAll(series, "'", "''"), strings.Join(of, " "))
	}
}

// asks adds what should be firing at a time.
func (d *day) asks(at time.Duration, firing []string) {
	slices.Sort(firing)
	fmt.Fprintf(&d.fires, "      - expr: '%s'\n        eval_time: %s\n        exp_samples: [%s]\n", question, at, strings.Join(firing, ", "))
}

// TestFaultsFireAndHealthIsQuiet runs the servers of proof/faults, and asks promtool what the rules make of their metrics.
func TestFaultsFireAndHealthIsQuiet(t *testing.T) {
	if _, err := promtool(t, "--version"); err != nil {
		t.Fatal(err)
	}
	var sick, well day
	var firing []string
	for i := range faults.Sick {
		s := &faults.Sick[i]
		sick.scraped(t, s, sickFor)
		for _, alert := range s.Alerts {
			firing = append(firing, fmt.Sprintf(`{labels: '{name="%s",alertname="%s"}', value: 1}`, s.Name, alert))
		}
	}
	sick.asks(sickFor, firing)
	for i := range faults.Well {
		well.scraped(t, &faults.Well[i], wellFor)
	}
	for at := time.Minute; at <= wellFor+goneFor; at += time.Minute {
		well.asks(at, nil)
	}
	rules, err := filepath.Abs("alerts.yaml")
	require.NoError(t, err)
	var file strings.Builder
	fmt.Fprintf(&file, "rule_files: ['%s']\nevaluation_interval: 30s\ntests:\n", rules)
	for _, d := range []*day{&sick, &well} {
		fmt.Fprintf(&file, "  - interval: %s\n    input_series:\n%s    promql_expr_test:\n%s", scrapes, d.series.String(), d.fires.String())
	}
	name := filepath.Join(t.TempDir(), "faults.yaml")
	require.NoError(t, os.WriteFile(name, []byte(file.String()), 0o600))
	out, err := promtool(t, "test", "rules", name)
	require.NoError(t, err, out)
}
