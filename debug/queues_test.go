package debug

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/queue"
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
		{"workers wait for jobs", func(n *queue.Stats) { n.Oldest, n.Expired = time.Hour, 500 }, "", ""},
		{"nobody puts back", func(n *queue.Stats) { n.Refused = 1 }, "trouble", "the line stands still: 40 requests wait, the longest for 1m0s, nothing was handed over, and 1 was refused in the last 2 min"},
		{"it is full", func(n *queue.Stats) { n.Handed, n.Refused = 1001, 3 }, "trouble", "full: 3 requests were refused in the last 2 min, by WithMaxWaiting"},
		{"nobody takes", func(n *queue.Stats) { n.PutRefused = 1 }, "trouble", "full: 1 item was refused in the last 2 min, by WithMaxItems"},
		{"a tenant hogs it", func(n *queue.Stats) { n.Tenants = map[string]queue.Tenant{"a": {Waiting: 32}, "b": {Waiting: 8}} }, "look", `tenant "a" is 32 of the 40 that wait`},
		{"a tenant has much", func(n *queue.Stats) { n.Tenants = map[string]queue.Tenant{"a": {Waiting: 31}, "b": {Waiting: 9}} }, "", ""},
		{"there is one tenant", func(n *queue.Stats) { n.Tenants = map[string]queue.Tenant{"a": {Waiting: 40}} }, "", ""},
		{"few wait", func(n *queue.Stats) {
			n.Waiting, n.Tenants = 19, map[string]queue.Tenant{"a": {Waiting: 18}, "b": {Waiting: 1}}
		}, "", ""},
	} {
		n := healthy
		c.make(&n)
		notes := queueNotes(&n, &healthy, 2*time.Minute, false)
		if c.level == "" {
			assert.Empty(t, notes, c.name)
			continue
		}
		if assert.Len(t, notes, 1, c.name) {
			assert.Equal(t, c.level, notes[0].Level, c.name)
			assert.Contains(t, notes[0].Text, c.text, c.name)
		}
	}
	hogged := queue.Stats{Waiting: 100, Tenants: map[string]queue.Tenant{"secret": {Waiting: 99}, "b": {Waiting: 1}}}
	assert.NotContains(t, queueNotes(&hogged, &hogged, time.Minute, true)[0].Text, "secret")
}

func TestThePageShowsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, err := queue.New[int](queue.WithMaxWaiting(10))
		require.NoError(t, err)
		p, err := New()
		require.NoError(t, err)
		defer p.Close()
		require.NoError(t, p.AddQueue("slots", line))
		var none *queue.Queue[int]
		require.ErrorIs(t, p.AddQueue("none", none), ErrNilSource)
		require.ErrorIs(t, p.AddQueue("none", nil), ErrNilSource)
		for _, tenant := range []string{"a", "b", "b"} {
			_, err := line.Start(time.Hour, nil, queue.Place{Tenant: tenant})
			require.NoError(t, err)
		}
		require.NoError(t, line.Put(1, queue.Place{Kinds: []string{"other"}, Tenant: "c"}))
		p.want() // as a request does
		for range 60 {
			time.Sleep(time.Second)
			for err == nil {
				_, err = line.Start(time.Hour, nil)
			}
			_, err = line.Start(time.Hour, nil)
			require.ErrorIs(t, err, queue.ErrFull)
		}
		v := p.view(nil)
		require.Len(t, v.Queues, 1)
		q := v.Queues[0]
		assert.Equal(t, []any{"slots", "q-slots", "trouble", 10, 1, int64(1)}, []any{q.Name, q.ID, q.State, q.Waiting, q.Items, q.Put})
		assert.Equal(t, []TenantView{{"", 7, 0, 59}, {"b", 2, 0, 60}, {"a", 1, 0, 60}, {"c", 0, 1, 0}}, q.Tenants)
		assert.Contains(t, q.Notes[0].Text, "the line stands still")
		var text strings.Builder
		printView(&text, v)
		assert.Contains(t, text.String(), `== line "slots"`)
		assert.Contains(t, text.String(), `tenant "b": 2 wait, the longest for 1m0s; 0 items`)
		b, err := json.Marshal(v)
		require.NoError(t, err)
		assert.Contains(t, string(b), `"waiting":10`)
		assert.Empty(t, p.view([]string{"another"}).Queues)
		p.RemoveQueue("slots")
		assert.Empty(t, p.view(nil).Queues)
	})
}
