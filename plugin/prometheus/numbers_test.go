package prometheus

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	"PassedOver":     `purgatory_passed_over_waits_total{purgatory="p"}`,
	"Panics":         `purgatory_panics_total{purgatory="p"}`,
	"Running":        `purgatory_running_callbacks{purgatory="p"}`,
	"BlockedFor":     `purgatory_blocked_callbacks_seconds{purgatory="p"}`,
	"OldestRunning":  `purgatory_oldest_running_callback_seconds{purgatory="p"}`,
	"StuckCallbacks": `purgatory_stuck_callbacks{purgatory="p"}`,
	"SlowCallbacks":  `purgatory_slow_callbacks_total{purgatory="p"}`,
	"Due":            `purgatory_due_operations{purgatory="p"}`,
	"OldestDue":      `purgatory_oldest_due_operation_seconds{purgatory="p"}`,
	"ReaperStalls":   `purgatory_reaper_stalls_total{purgatory="p"}`,
	"OldestAge":      `purgatory_oldest_operation_age_seconds{purgatory="p"}`,
}

// fixed is a collector of one purgatory whose numbers are n.
type fixed struct {
	c *Collector
	n *purgatory.Stats
}

func (f fixed) Describe(out chan<- *prometheus.Desc) { f.c.Describe(out) }
func (f fixed) Collect(out chan<- prometheus.Metric) { f.c.collect("p", f.n, out) }

func timed(t *testing.T) *purgatory.Stats {
	t.Helper()
	n := newPurgatory[string](t, "p", purgatory.WithHistograms(), purgatory.WithSlowCallback(time.Hour)).Stats()
	require.True(t, n.Timed && n.CallbacksTimed)
	return &n
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
	n, want := timed(t), make(map[string]int64)
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
	for line := range strings.Lines(scrape(t, fixed{&Collector{}, n})) {
		lines[strings.TrimSpace(line)] = true
	}
	for field, value := range want {
		assert.Contains(t, lines, fmt.Sprintf("%s %d", exported[field], value), field)
	}
}

// everything returns numbers of which none is 0, so that every metric is there.
func everything(t *testing.T) *purgatory.Stats {
	t.Helper()
	n := timed(t)
	eachNumber(reflect.ValueOf(n).Elem(), func(_ string, v reflect.Value) { v.SetInt(1) })
	return n
}

// TestEachHistogramIsUnderItsName gives every bucket of every histogram a count that no other has, the last ones too.
func TestEachHistogramIsUnderItsName(t *testing.T) {
	n := timed(t)
	value := int64(0)
	fill := func(h *purgatory.Histogram) (sums []int64) {
		total := int64(0)
		for i := range h.Counts {
			value++
			h.Counts[i] = value
			total += value
			sums = append(sums, total)
		}
		h.Sum = float64(total)
		return sums
	}
	type histogram struct {
		of     *purgatory.Histogram
		name   string
		labels string
	}
	all := []histogram{{&n.Late, "purgatory_expiry_lateness_seconds", `purgatory="p"`}}
	for o, outcome := range []string{"pending", "satisfied", "forced", "expired", "cancelled", "closed"} {
		if o > 0 {
			all = append(all, histogram{&n.Waited[o], "purgatory_wait_seconds", `outcome="` + outcome + `",purgatory="p"`})
		}
	}
	sums := make([][]int64, len(all))
	for i, h := range all {
		sums[i] = fill(h.of)
	}
	ages := fill(&n.Ages)
	for _, native := range []bool{false, true} {
		text := scrape(t, fixed{&Collector{opts: Options{NativeHistograms: native}}, n})
		for i, h := range all {
			last := purgatory.HistogramBuckets - 1
			for bucket := range last {
				assert.Contains(t, text, fmt.Sprintf("%s_bucket{%s,le=\"%v\"} %d\n", h.name, h.labels, h.of.Bound(bucket).Seconds(), sums[i][bucket]))
			}
			assert.Contains(t, text, fmt.Sprintf("%s_bucket{%s,le=\"+Inf\"} %d\n", h.name, h.labels, sums[i][last]))
			assert.Contains(t, text, fmt.Sprintf("%s_count{%s} %d\n", h.name, h.labels, sums[i][last]))
			assert.Contains(t, text, fmt.Sprintf("%s_sum{%s} %d\n", h.name, h.labels, sums[i][last]))
		}
		for bucket := range purgatory.HistogramBuckets - 1 {
			assert.Contains(t, text, fmt.Sprintf("purgatory_pending_operations_by_age{age=\"%v\",purgatory=\"p\"} %d\n", n.Ages.Bound(bucket).Seconds(), ages[bucket]))
		}
	}
}
