package debug

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// shown says where each number of a purgatory is in the JSON, by the name of its field.
var shown = map[string]string{
	"Pending":        "pending",
	"MaxPending":     "max_pending",
	"Watched":        "watched",
	"Keys":           "keys",
	"Stale":          "stale",
	"Accepted":       "accepted",
	"Satisfied":      "ended.satisfied",
	"Forced":         "ended.forced",
	"Expired":        "ended.expired",
	"Cancelled":      "ended.cancelled",
	"Closed":         "ended.closed",
	"Rejected":       "rejected",
	"RejectedClosed": "rejections.closed",
	"RejectedFull":   "rejections.full",
	"RejectedInput":  "rejections.input",
	"Checks":         "checks",
	"WastedChecks":   "wasted_checks",
	"Signals":        "signals",
	"Purged":         "purged",
	"PassedOver":     "passed_over",
	"Panics":         "panics",
	"Running":        "running",
	"BlockedFor":     "blocked_for",
	"OldestRunning":  "oldest_running",
	"StuckCallbacks": "stuck_callbacks",
	"SlowCallbacks":  "slow_callbacks",
	"Due":            "due",
	"OldestDue":      "oldest_due",
	"ReaperStalls":   "reaper_stalls",
	"OldestAge":      "oldest_age",
}

// eachNumber calls set for every field that is one number.
func eachNumber(v reflect.Value, set func(field string, v reflect.Value)) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Int64 {
			set(v.Type().Field(i).Name, f)
		}
	}
}

// distinct returns numbers of which no two are the same, histograms included, and what they are by field.
func distinct(t *testing.T) (n *purgatory.Stats, want map[string]float64) {
	t.Helper()
	s := newFetches(t, purgatory.WithHistograms(), purgatory.WithSlowCallback(time.Hour)).Stats()
	n, want = &s, make(map[string]float64)
	value := int64(1000)
	eachNumber(reflect.ValueOf(n).Elem(), func(field string, v reflect.Value) {
		value += 7
		v.SetInt(value)
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(value * int64(time.Second))
		}
		want[field] = float64(value)
	})
	fill := func(h *purgatory.Histogram) {
		for i := range h.Counts {
			value += 7
			h.Counts[i] = value
		}
		value += 7
		h.Sum = float64(value)
	}
	fill(&n.Ages)
	fill(&n.Late)
	for o := range outcomes {
		fill(&n.Waited[o])
	}
	return n, want
}

// tree returns v as its JSON is.
func tree(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &m))
	return m
}

func at(m map[string]any, path string) any {
	for name, rest, more := strings.Cut(path, "."); more; name, rest, more = strings.Cut(path, ".") {
		m, path = m[name].(map[string]any), rest
	}
	return m[path]
}

// TestEachNumberIsUnderItsName gives every number a value that no other has. A number that Stats gains and the page does
// not show is an error too.
func TestEachNumberIsUnderItsName(t *testing.T) {
	n, want := distinct(t)
	got := tree(t, viewOf("fetches", n, &purgatory.Inspection{}))
	require.GreaterOrEqual(t, len(want), 20)
	for field, value := range want {
		if assert.Contains(t, shown, field, "Stats.%s is not shown, or this test does not know it", field) {
			assert.InDelta(t, value, at(got, shown[field]), 0, field)
		}
	}
}

func TestEachHistogramIsUnderItsName(t *testing.T) {
	n, _ := distinct(t)
	v := viewOf("fetches", n, &purgatory.Inspection{})
	check := func(h *purgatory.Histogram, got HistogramView) {
		assert.Equal(t, h.Counts[:], got.Counts)
		assert.InDelta(t, h.Sum, got.Sum, 0)
		require.Len(t, got.Bounds, len(got.Counts)-1)
		for i, bound := range got.Bounds {
			assert.InDelta(t, h.Bound(i).Seconds(), bound, 0)
		}
	}
	check(&n.Ages, v.Ages)
	check(&n.Late, v.Late)
	for o := range outcomes {
		check(&n.Waited[o], v.Waited[o.String()])
	}
}

// TestTheTextHasEachNumber looks for each by its value only: the text is for people.
func TestTheTextHasEachNumber(t *testing.T) {
	n, want := distinct(t)
	var text strings.Builder
	v := viewOf("fetches", n, &purgatory.Inspection{})
	printView(&text, View{Purgatories: []PurgatoryView{v}})
	for field, value := range want {
		word := fmt.Sprint(value)
		if strings.HasPrefix(field, "Oldest") || field == "BlockedFor" {
			word = seconds(value)
		}
		if field == "Due" || field == "OldestDue" {
			word = "≥ " + word
		}
		if field != "Stale" { // of use to those who debug the purge
			assert.Contains(t, text.String(), word, field)
		}
	}
}

// TestWhatIsNotMeasuredIsNotZero: neither WithSlowCallback nor WithHistograms, and nobody has looked before.
func TestWhatIsNotMeasuredIsNotZero(t *testing.T) {
	textOf := func(n purgatory.Stats, in purgatory.Inspection) string {
		var text strings.Builder
		printView(&text, View{Purgatories: []PurgatoryView{viewOf("fetches", &n, &in)}})
		return text.String()
	}
	text := textOf(purgatory.Stats{Running: 9, Due: 3, OldestDue: time.Second}, purgatory.Inspection{})
	assert.Contains(t, text, "9 callbacks, the oldest for –, – stuck; 3 due, the oldest for 1s; – slow callbacks, 0 reaper stalls\n")
	assert.Contains(t, text, "oldest  –\n")
	assert.Regexp(t, ` 0 +– +– +– "fetches"\n`, text, "the overview")
	text = textOf(purgatory.Stats{CallbacksTimed: true}, purgatory.Inspection{})
	assert.Contains(t, text, "0 callbacks, the oldest for 0s, 0 stuck; 0 due, the oldest for 0s; 0 slow callbacks, 0 reaper stalls\n")
	text = textOf(purgatory.Stats{Running: 9, BlockedFor: 4 * time.Second}, purgatory.Inspection{})
	assert.Contains(t, text, "9 callbacks, under some keys none has returned for 4s, the oldest for –")
	text = textOf(purgatory.Stats{Due: 200, OldestDue: time.Second}, purgatory.Inspection{})
	assert.Contains(t, text, "≥ 200 due, the oldest for ≥ 1s;")

	oldest := purgatory.Inspection{Looked: 4096, Oldest: []purgatory.OperationReport{{Age: time.Minute}}}
	assert.Contains(t, textOf(purgatory.Stats{Watched: 5000}, oldest), "oldest of 4096 watches that were looked at, of 5000; the oldest of all has waited ≥ 1m0s:\n")
	assert.Contains(t, textOf(purgatory.Stats{Watched: 5000, Stale: 904}, oldest), "oldest operations:\n")
}
