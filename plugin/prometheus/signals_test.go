package prometheus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// said is a source of hints whose numbers are known.
type said signals.Stats

func (s said) Stats() signals.Stats { return signals.Stats(s) }

// exportedSignals says under which name each number of a source is exported, by the name of its field.
var exportedSignals = map[string]string{
	"Running":       "purgatory_hint_source_running",
	"Standing":      "purgatory_hint_source_standing",
	"Hints":         "purgatory_hints_total",
	"Unawaited":     "purgatory_unawaited_hints_total",
	"Gaps":          "purgatory_hint_source_gaps_total",
	"Repeats":       "purgatory_repeated_hints_total",
	"Reading":       "purgatory_bulk_read_seconds",
	"QueueUsed":     "purgatory_hint_queue_used_ratio",
	"Audits":        "purgatory_audits_total",
	"Rechecks":      "purgatory_rechecks_total",
	"BulkReads":     "purgatory_bulk_reads_total",
	"Failures":      "purgatory_failed_bulk_reads_total",
	"Ends":          "purgatory_hint_source_ends_total",
	"SinceLastWord": "purgatory_hint_source_silence_seconds",
	"Name":          "", // the label
	"Err":           "", // a text
	"Blind":         "", // a text
	"Lag":           "purgatory_hint_read_lag_seconds",
	"LagAllowed":    "purgatory_hint_read_lag_allowed_seconds",
}

// TestEachNumberOfASourceIsUnderItsName gives every number a value that no other has. A field that signals.Stats gains and
// nobody exports is an error too.
func TestEachNumberOfASourceIsUnderItsName(t *testing.T) {
	for _, running := range []bool{false, true} {
		n, want := signals.Stats{Name: "nats", Running: running, Standing: !running}, make(map[string]int64)
		value := int64(1000)
		eachNumber(reflect.ValueOf(&n).Elem(), func(field string, v reflect.Value) {
			value += 7
			v.SetInt(value)
			if v.Type() == reflect.TypeFor[time.Duration]() {
				v.SetInt(value * int64(time.Second))
			}
			want[field] = value
		})
		require.Len(t, want, 13)
		want["QueueUsed"], want["Running"], want["Standing"] = 0, 0, 1 // an empty queue is not one that nobody has measured
		if running {
			n.QueueUsed, want["QueueUsed"] = 1, 1
			want["Running"], want["Standing"] = 1, 0
		}
		for i := range reflect.TypeFor[signals.Stats]().NumField() {
			field := reflect.TypeFor[signals.Stats]().Field(i).Name
			assert.Contains(t, exportedSignals, field, "Stats.%s is not exported, or this test does not know it", field)
		}
		c, err := New()
		require.NoError(t, err)
		require.NoError(t, c.AddSignals(said(n)))
		lines := make(map[string]bool)
		for line := range strings.Lines(scrape(t, c)) {
			lines[strings.TrimSpace(line)] = true
		}
		for field, value := range want {
			assert.Contains(t, lines, fmt.Sprintf(`%s{signals="nats"} %d`, exportedSignals[field], value), field)
		}
	}
}

func TestNamesTellSourcesOfHintsApart(t *testing.T) {
	c, err := New(newPurgatory[string](t, "nats"))
	require.NoError(t, err)
	require.NoError(t, c.AddSignals(said{Name: "nats"}), "a purgatory may have the same name")
	require.NoError(t, c.AddSignals(said{Name: "postgres"}))
	assert.Equal(t, 2, testutil.CollectAndCount(c, "purgatory_hints_total"))
	require.ErrorIs(t, c.AddSignals(said{Name: "nats"}), ErrName)
	require.ErrorIs(t, c.AddSignals(nil), ErrNilSource)
	c.RemoveSignals("nats")
	assert.Equal(t, 1, testutil.CollectAndCount(c, "purgatory_hints_total"))
	assert.Equal(t, 1, testutil.CollectAndCount(c, "purgatory_keys"))
	require.NoError(t, c.AddSignals(said{Name: "nats"}))
}

// TestARunnerIsMeasured has a source end before its time: what is scraped then comes from a real runner.
func TestARunnerIsMeasured(t *testing.T) {
	hints, err := signals.To(newPurgatory[string](t, "p"), signals.WithName("nats"), signals.WithBackoff(time.Hour, time.Hour))
	require.NoError(t, err)
	c, err := New()
	require.NoError(t, err)
	require.NoError(t, c.AddSignals(hints))
	assert.Contains(t, scrape(t, c), `purgatory_hint_source_running{signals="nats"} 0`+"\n")
	assert.NotContains(t, scrape(t, c), "purgatory_hint_queue_used_ratio{", "nobody has measured it")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- hints.Run(ctx, signals.SourceFunc[string](func(_ context.Context, sink signals.Sink[string]) error {
			sink.Missed(signals.ErrSubscribed)
			sink.Changed("orders", 1)
			return errors.New("cut off")
		}))
	}()
	t.Cleanup(func() {
		stop()
		assert.ErrorIs(t, <-ended, context.Canceled)
	})
	require.Eventually(t, func() bool { return hints.Stats().Ends == 1 }, time.Minute, time.Millisecond)
	text := scrape(t, c)
	for _, line := range []string{
		`purgatory_hint_source_running{signals="nats"} 1`, `purgatory_hint_source_standing{signals="nats"} 0`,
		`purgatory_hint_source_ends_total{signals="nats"} 1`, `purgatory_hints_total{signals="nats"} 1`,
		`purgatory_unawaited_hints_total{signals="nats"} 1`,
	} {
		assert.Contains(t, text, line+"\n")
	}
}
