package prometheus

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// exported says under which name each number of a purgatory is exported, by the name of its field.
var exported = map[string]string{
	"Pending":        `purgatory_pending_operations{purgatory="p"}`,
	"MaxPending":     `purgatory_max_pending_operations{purgatory="p"}`,
	"Watched":        `purgatory_watched_entries{purgatory="p"}`,
	"Keys":           `purgatory_keys{purgatory="p"}`,
	"Stale":          `purgatory_stale_entries{purgatory="p"}`,
	"Accepted":       `purgatory_accepted_operations_total{purgatory="p"}`,
	"Satisfied":      `purgatory_ended_operations_total{outcome="satisfied",purgatory="p"}`,
	"Forced":         `purgatory_ended_operations_total{outcome="forced",purgatory="p"}`,
	"Expired":        `purgatory_ended_operations_total{outcome="expired",purgatory="p"}`,
	"Cancelled":      `purgatory_ended_operations_total{outcome="cancelled",purgatory="p"}`,
	"Closed":         `purgatory_ended_operations_total{outcome="closed",purgatory="p"}`,
	"RejectedClosed": `purgatory_rejected_operations_total{purgatory="p",reason="closed"}`,
	"RejectedFull":   `purgatory_rejected_operations_total{purgatory="p",reason="full"}`,
	"RejectedInput":  `purgatory_rejected_operations_total{purgatory="p",reason="input"}`,
	"Checks":         `purgatory_checks_total{purgatory="p"}`,
	"WastedChecks":   `purgatory_wasted_checks_total{purgatory="p"}`,
	"Signals":        `purgatory_signals_total{purgatory="p"}`,
	"Purged":         `purgatory_purged_entries_total{purgatory="p"}`,
	"Unchecked":      `purgatory_unchecked_operations_total{purgatory="p"}`,
	"GaveUp":         `purgatory_given_up_waits_total{purgatory="p"}`,
	"PassedOver":     `purgatory_passed_over_waits_total{purgatory="p"}`,
	"Panics":         `purgatory_panics_total{purgatory="p"}`,
	"Running":        `purgatory_running_callbacks{purgatory="p"}`,
	"BlockedFor":     `purgatory_blocked_callbacks_seconds{purgatory="p"}`,
	"Due":            `purgatory_due_operations{purgatory="p"}`,
	"OldestDue":      `purgatory_oldest_due_operation_seconds{purgatory="p"}`,
	"ReaperStalls":   `purgatory_reaper_stalls_total{purgatory="p"}`,
}

// fixed is a purgatory whose numbers are known.
type fixed purgatory.Stats

func (fixed) Name() string             { return "p" }
func (f fixed) Stats() purgatory.Stats { return purgatory.Stats(f) }

// scrapeOf returns what Prometheus would get of one purgatory.
func scrapeOf(t *testing.T, n *purgatory.Stats, opts Options) string {
	t.Helper()
	c, err := NewWithOptions(opts, fixed(*n))
	require.NoError(t, err)
	return scrape(t, c)
}

func timed() *purgatory.Stats {
	return &purgatory.Stats{Waited: new([operation.NumOutcomes]purgatory.Histogram)}
}

// eachNumber calls set for every field that is one number.
func eachNumber(v reflect.Value, set func(field string, v reflect.Value)) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Int64 {
			set(v.Type().Field(i).Name, f)
		}
	}
}

// TestEachNumberIsUnderItsName gives every number a value that no other has. A number that Stats gains and nobody exports
// is an error too.
func TestEachNumberIsUnderItsName(t *testing.T) {
	n, want := timed(), make(map[string]int64)
	value := int64(1000)
	eachNumber(reflect.ValueOf(n).Elem(), func(field string, v reflect.Value) {
		value += 7
		v.SetInt(value)
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(value * int64(time.Second))
		}
		if field != "Rejected" { // the sum of those by reason
			assert.Contains(t, exported, field, "Stats.%s is not exported, or this test does not know it", field)
			want[field] = value
		}
	})
	require.GreaterOrEqual(t, len(want), 20)
	lines := make(map[string]bool)
	for line := range strings.Lines(scrapeOf(t, n, Options{})) {
		lines[strings.TrimSpace(line)] = true
	}
	for field, value := range want {
		assert.Contains(t, lines, fmt.Sprintf("%s %d", exported[field], value), field)
	}
}

// everything returns numbers of which none is 0, so that every metric is there.
func everything() purgatory.Stats {
	n := timed()
	eachNumber(reflect.ValueOf(n).Elem(), func(_ string, v reflect.Value) { v.SetInt(1) })
	return *n
}

// TestEachHistogramIsUnderItsName gives every bucket of every histogram a count that no other has, the last ones too.
func TestEachHistogramIsUnderItsName(t *testing.T) {
	n, value := timed(), int64(0)
	for o := range n.Waited {
		for i := range n.Waited[o].Counts {
			value++
			n.Waited[o].Counts[i] = value
		}
		n.Waited[o].Sum = float64(value)
	}
	for _, native := range []bool{false, true} {
		text := scrapeOf(t, n, Options{NativeHistograms: native})
		for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
			h, total, labels := &n.Waited[o], int64(0), fmt.Sprintf(`outcome="%s",purgatory="p"`, o)
			for i, count := range h.Counts {
				total += count
				bound := "+Inf"
				if i < len(purgatory.Histogram{}.Counts)-1 {
					bound = fmt.Sprint(h.Bound(i).Seconds())
				}
				assert.Contains(t, text, fmt.Sprintf("purgatory_wait_seconds_bucket{%s,le=%q} %d\n", labels, bound, total))
			}
			assert.Contains(t, text, fmt.Sprintf("purgatory_wait_seconds_count{%s} %d\n", labels, total))
			assert.Contains(t, text, fmt.Sprintf("purgatory_wait_seconds_sum{%s} %v\n", labels, h.Sum))
		}
	}
}
