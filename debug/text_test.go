package debug

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/queue"
)

// numbered gives each number of stats a value of its own, from first on, in the order of the fields.
func numbered(stats any, first int64) {
	of := reflect.ValueOf(stats).Elem()
	for i := range of.NumField() {
		switch v := of.Field(i); {
		case v.Type() == reflect.TypeFor[time.Duration]():
			v.SetInt(first * int64(time.Second))
		case v.CanInt():
			v.SetInt(first)
		case v.CanFloat():
			v.SetFloat(float64(first) / 1000)
		}
		first++
	}
}

const numberedText = `         "", 101 pending

== ""
pending 101 of at most 123 under 103 keys; 105 accepted, 111 rejected (112 closed, 113 full, 114 input)
ended   106 satisfied, 107 forced, 108 expired (120 unchecked), 109 cancelled, 110 closed; 119 panics
runs    125 callbacks, none has returned for 2m6s; 127 due, the oldest for 2m8s; 129 reaper stalls
checks  115, 116 of them found nothing; 117 signals; 102 watches, 104 stale, 118 purged; 121 gave up, 122 passed over

== hints from ""
source  does not stand, last word 3m33s ago; 212 ends, 206 gaps
hints   204, 205 of them awaited by nobody; 207 said again
checks  209 re-checks of everything, 208 by audit; 210 bulk reads, 211 of them failed; reading for 3m34s
reads   behind their hints by at most 3m36s, WithLag allows 3m37s
queue   of the engine full to 21.5 %

== line ""
waiting 309, the longest for 5m11s; 310 items are kept
items   301 put, 302 put back, 303 handed over, 304 refused
requests 305 served, 306 expired, 307 left, 308 refused
tenant "many": 2 wait, the longest for 4s; 3 items
tenant "items": 1 wait, the longest for 1m0s; 10 items
tenant "few": 1 wait, the longest for 1h0m0s; 9 items

== watermark ""
waiting 401, the longest for 6m42s
waits   403 served, 405 expired, 404 given up, 406 cancelled, 407 refused
`

// Each number stands beside its own word.
func TestTheTextSaysWhichNumberIsWhich(t *testing.T) {
	var v View
	v.Purgatories = make([]PurgatoryView, 1)
	v.Signals, v.Queues, v.Watermarks = make([]SignalsView, 1), make([]QueueView, 1), make([]WatermarkView, 1)
	numbered(&v.Purgatories[0].Stats, 101)
	numbered(&v.Signals[0].Stats, 201)
	numbered(&v.Queues[0].Stats, 301)
	numbered(&v.Watermarks[0].Stats, 401)
	v.Signals[0].Stats.Running = true
	v.Queues[0].Stats.Tenants = map[string]queue.Tenant{"few": {Waiting: 1, Items: 9, Oldest: time.Hour}, "items": {Waiting: 1, Items: 10, Oldest: time.Minute}, "many": {Waiting: 2, Items: 3, Oldest: 4 * time.Second}}
	var text strings.Builder
	printView(&text, v)
	_, after, _ := strings.Cut(text.String(), "\n") // the time
	assert.Equal(t, numberedText, after)
}

// A table has as many rows as Options say, within the bound of a page.
func TestRowsAreBounded(t *testing.T) {
	purg := newFetches(t)
	line, err := queue.New[int]()
	require.NoError(t, err)
	defer line.Close(nil)
	for i := range maxRows + 20 {
		submit(t, purg, time.Hour, fmt.Sprint(i))
		require.NoError(t, line.Put(i, queue.Place{Tenant: fmt.Sprint(i)}))
	}
	for rows, want := range map[int]int{-1: 12, 0: 12, 1: 1, 13: 13, maxRows: maxRows, maxRows + 1: maxRows, 1 << 30: maxRows} {
		page := pageWith(Options{Rows: rows}, purg)
		require.NoError(t, page.AddQueue("line", line))
		v := page.view(nil)
		assert.Len(t, v.Purgatories[0].Inspection.Oldest, want, rows)
		assert.Len(t, v.Queues[0].Stats.Tenants, want, rows)
		page.Close()
	}
}
