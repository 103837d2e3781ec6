package debug

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/watermark"
)

func TestASickLineHasItsNote(t *testing.T) {
	healthy := queue.Stats{Put: 1000, Handed: 1000, Served: 1000, Expired: 5, Waiting: 40, Oldest: time.Minute, Tenants: map[string]queue.Tenant{"a": {Waiting: 20}, "b": {Waiting: 20}}}
	for _, c := range []struct {
		name  string
		make  func(n *queue.Stats)
		level string // empty: no note
		text  string
	}{
		{"all is well", func(n *queue.Stats) { n.Handed++ }, "", ""},
		{"workers wait for jobs, and leave", func(n *queue.Stats) { n.Oldest, n.Expired, n.Left = time.Hour, 500, 500 }, "", ""},
		{"nobody puts back", func(n *queue.Stats) { n.Refused = 1 }, "trouble", "the line stands still: 40 requests wait, the longest for 1m0s, nothing was handed over, and 1 was refused in the last 2 min"},
		{"it is full", func(n *queue.Stats) { n.Handed, n.Refused = 1001, 3 }, "trouble", "full: 3 requests were refused in the last 2 min, by WithMaxWaiting"},
		{"nobody takes", func(n *queue.Stats) { n.PutRefused = 1 }, "trouble", "full: 1 item was refused in the last 2 min, by WithMaxItems"},
		{"a tenant hogs it", func(n *queue.Stats) { n.Tenants = map[string]queue.Tenant{"a": {Waiting: 32}, "b": {Waiting: 8}} }, "look", `tenant "a" has 32 of the 40 requests that wait`},
		{"a tenant's requests for several kinds hog it", func(n *queue.Stats) { n.Tenants = map[string]queue.Tenant{"a": {Waiting: 80}, "b": {Waiting: 20}} }, "look", `tenant "a" has 80 of the 100 requests that wait`},
		{"a tenant's items hog it", func(n *queue.Stats) {
			n.Tenants = map[string]queue.Tenant{"a": {Waiting: 20}, "b": {Waiting: 20, Items: 4}, "c": {Items: 16}}
		}, "look", `tenant "c" has 16 of the 20 items that are kept`},
		{"a tenant has many items", func(n *queue.Stats) {
			n.Tenants = map[string]queue.Tenant{"a": {Waiting: 20, Items: 5}, "b": {Waiting: 20, Items: 15}}
		}, "", ""},
		{"a tenant has much", func(n *queue.Stats) { n.Tenants = map[string]queue.Tenant{"a": {Waiting: 31}, "b": {Waiting: 9}} }, "", ""},
		{"there is one tenant", func(n *queue.Stats) { n.Tenants = map[string]queue.Tenant{"a": {Waiting: 40}} }, "", ""},
		{"a tenant hogs twenty", func(n *queue.Stats) {
			n.Waiting, n.Tenants = 20, map[string]queue.Tenant{"a": {Waiting: 16}, "b": {Waiting: 4}}
		}, "look", `tenant "a" has 16 of the 20 requests that wait`},
		{"few wait", func(n *queue.Stats) {
			n.Waiting, n.Tenants = 19, map[string]queue.Tenant{"a": {Waiting: 18}, "b": {Waiting: 1}}
		}, "", ""},
	} {
		n := healthy
		c.make(&n)
		expectNote(t, c.name, queueNotes(&n, &healthy, 2*time.Minute, false), c.level, c.text)
	}
	for length, text := range map[time.Duration]string{stillLook - 1: "full: 1 request was refused", stillLook: "the line stands still"} {
		n := healthy
		n.Refused = 1
		expectNote(t, length.String(), queueNotes(&n, &healthy, length, false), "trouble", text)
	}
	full := queue.Stats{Waiting: 30, Refused: 1, Handed: 1, Tenants: map[string]queue.Tenant{"a": {Waiting: 30}}}
	if notes := queueNotes(&full, &queue.Stats{}, time.Minute, false); assert.Len(t, notes, 2) {
		assert.Equal(t, `tenant "a" has 30 of the 30 requests that wait`, notes[1].Text, "alone, while others are refused")
	}
	full.Tenants = map[string]queue.Tenant{"": {Waiting: 30}}
	assert.Len(t, queueNotes(&full, &queue.Stats{}, time.Minute, false), 1, "nobody has a name")
	full = queue.Stats{Items: 30, PutRefused: 1, Tenants: map[string]queue.Tenant{"a": {Items: 30}}}
	if notes := queueNotes(&full, &queue.Stats{}, time.Minute, false); assert.Len(t, notes, 2) {
		assert.Equal(t, `tenant "a" has 30 of the 30 items that are kept`, notes[1].Text)
	}
	hogged := queue.Stats{Waiting: 100, Tenants: map[string]queue.Tenant{"secret": {Waiting: 99}, "b": {Waiting: 1}}}
	assert.NotContains(t, queueNotes(&hogged, &hogged, time.Minute, true)[0].Text, "secret")
}

// expectNote expects one note of that level, or none.
func expectNote(t *testing.T, name string, got []Note, level, text string) {
	t.Helper()
	if level == "" {
		assert.Empty(t, got, name)
	} else if assert.Len(t, got, 1, name) {
		assert.Equal(t, level, got[0].Level, name)
		assert.Contains(t, got[0].Text, text, name)
	}
}

func TestASickWatermarkHasItsNote(t *testing.T) {
	healthy := watermark.Stats{Waiting: 10_000, Oldest: time.Second, Served: 1000, Expired: 50, Left: 9}
	for _, c := range []struct {
		name  string
		make  func(n *watermark.Stats)
		level string // empty: no note
		text  string
	}{
		{"a crowd waits", func(*watermark.Stats) {}, "", ""},
		{"a crowd is served", func(n *watermark.Stats) { n.Served, n.Expired = 11_000, 90 }, "", ""},
		{"it stands still", func(n *watermark.Stats) { n.Expired = 10_050 }, "trouble", "100 % of the waits that ended in the last 60 s have expired, 10000 of 10000: does the position rise too slowly"},
		{"a tenth expires", func(n *watermark.Stats) { n.Served, n.Expired = 1090, 60 }, "trouble", "10 % of the waits"},
		{"less than a tenth expires", func(n *watermark.Stats) { n.Served, n.Expired = 1091, 60 }, "", ""},
		{"few expire", func(n *watermark.Stats) { n.Expired = 54 }, "", ""},
		{"five expire", func(n *watermark.Stats) { n.Expired = 55 }, "trouble", "100 % of the waits that ended in the last 60 s have expired, 5 of 5"},
		{"half of those whose era ends have expired", func(n *watermark.Stats) { n.Cancelled, n.Expired = 10, 60 }, "trouble", "50 % of the waits"},
		{"long polls", func(n *watermark.Stats) { n.Expired, n.Left, n.TimeoutsExpected = 10_050, 10_000, true }, "", ""},
		{"clients give up", func(n *watermark.Stats) { n.Served, n.Left = 1006, 103 }, "trouble", "94 % of the waits that ended in the last 60 s were given up, 94 of 100"},
		{"an era ends", func(n *watermark.Stats) { n.Cancelled = 10_000 }, "", ""},
		{"the purgatory is full", func(n *watermark.Stats) { n.Refused = 2 }, "trouble", "full: 2 waits were refused in the last 60 s"},
	} {
		n := healthy
		c.make(&n)
		expectNote(t, c.name, watermarkNotes(&n, &healthy, time.Minute), c.level, c.text)
	}
}

func TestThePageShowsLinesAndWatermarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, err := queue.New[int](queue.WithMaxWaiting(10))
		require.NoError(t, err)
		purg, err := purgatory.New[string]("log")
		require.NoError(t, err)
		defer purg.Close()
		mark := watermark.New(purg, "log", 7)
		p := pageOf()
		defer p.Close()
		require.NoError(t, p.AddQueue("slots", line))
		require.NoError(t, p.AddWatermark("replicated", mark))
		for _, tenant := range []string{"a", "b", "b"} {
			_, err := line.Start(time.Hour, nil, queue.Place{Tenant: tenant})
			require.NoError(t, err)
		}
		require.NoError(t, line.Put(1, queue.Place{Kinds: []string{"other"}, Tenant: "c"}))
		p.want() // as a request does
		for range 60 {
			go func() { _ = mark.Await(t.Context(), 4500*time.Millisecond, 8) }()
			time.Sleep(time.Second)
			for err == nil {
				_, err = line.Start(time.Hour, nil)
			}
			_, err = line.Start(time.Hour, nil)
			require.ErrorIs(t, err, queue.ErrFull)
		}
		var v View
		require.NoError(t, json.Unmarshal(get(t, p, "/?format=json").Body.Bytes(), &v))
		require.Len(t, v.Queues, 1)
		q := v.Queues[0]
		assert.Equal(t, []any{"slots", "q-slots", "trouble", 10, 1, int64(1)}, []any{q.Name, q.ID, q.State, q.Stats.Waiting, q.Stats.Items, q.Stats.Put})
		assert.Equal(t, map[string]queue.Tenant{"": {Waiting: 7, Oldest: 59 * time.Second}, "b": {Waiting: 2, Oldest: time.Minute}, "a": {Waiting: 1, Oldest: time.Minute}, "c": {Items: 1}}, q.Stats.Tenants)
		assert.Contains(t, q.Notes[0].Text, "the line stands still")
		w := v.Watermarks[0]
		assert.Equal(t, []any{"replicated", "w-replicated", "trouble", 4, int64(56)}, []any{w.Name, w.ID, w.State, w.Stats.Waiting, w.Stats.Expired})
		assert.Contains(t, w.Notes[0].Text, "100 % of the waits")
		var text strings.Builder
		printView(&text, v)
		for _, want := range []string{
			`== line "slots"`, `tenant "b": 2 wait, the longest for 1m0s; 0 items`,
			`== watermark "replicated"`, "waiting 4, the longest for 4s", "waits   0 served, 56 expired, 0 given up, 0 cancelled, 0 refused",
		} {
			assert.Contains(t, text.String(), want)
		}
		p.opts.HideDetails = true
		assert.NotContains(t, get(t, p, "/?format=json").Body.String(), "Tenant\":")
		assert.Empty(t, p.view([]string{"another"}).Queues)
		p.Remove(line)
		p.Remove(mark)
		v = p.view(nil)
		assert.Empty(t, v.Queues)
		assert.Empty(t, v.Watermarks)
	})
}
