package prometheus

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

// counted is a line of items whose numbers are known.
type counted queue.Stats

func (s counted) Stats() queue.Stats { return queue.Stats(s) }

// exportedQueue says under which name each number of a line is exported, by the name of its field.
var exportedQueue = map[string]string{
	"Put": "put_total", "Back": "put_back_total", "Handed": "handed_total", "PutRefused": "put_refused_total",
	"Served": "served_total", "Expired": "expired_total", "Left": "left_total", "Refused": "refused_total",
	"Waiting": "waiting", "Items": "items", "Oldest": "oldest_wait_seconds",
}

// Every number has a value that no other has. A field that queue.Stats gains and nobody exports is an error too.
func TestEachNumberOfALineIsUnderItsName(t *testing.T) {
	n := queue.Stats{Tenants: map[string]queue.Tenant{"a": {Waiting: 3}, "b": {Waiting: 5}, "c": {}}}
	want := map[string]int64{"tenants": 3, "most_waiting_of_a_tenant": 5}
	value := int64(1000)
	of := reflect.ValueOf(&n).Elem()
	for i := range of.NumField() {
		field, v := of.Type().Field(i).Name, of.Field(i)
		if !v.CanInt() {
			continue
		}
		value += 7
		v.SetInt(value)
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(value * int64(time.Second))
		}
		require.Contains(t, exportedQueue, field)
		want[exportedQueue[field]] = value
	}
	c, err := New()
	require.NoError(t, err)
	require.NoError(t, c.AddQueue("jobs", counted(n)))
	require.ErrorIs(t, c.AddQueue("jobs", counted(n)), ErrName)
	require.ErrorIs(t, c.AddQueue("none", nil), ErrNilSource)
	assert.Len(t, want, len(queueMetrics))
	for name, value := range want {
		name = "purgatory_queue_" + name
		text, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, name)
		require.NoError(t, err)
		assert.Contains(t, string(text), fmt.Sprintf("%s{queue=\"jobs\"} %d\n", name, value))
	}
	c.RemoveQueue("jobs")
	assert.Zero(t, testutil.CollectAndCount(c))
}

func TestALineOfTheLibraryIsCollected(t *testing.T) {
	line, err := queue.New[int]()
	require.NoError(t, err)
	c, err := New()
	require.NoError(t, err)
	require.NoError(t, c.AddQueue("jobs", line))
	require.NoError(t, line.Put(1))
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP purgatory_queue_items Items, or units, that are kept since nobody has taken them.
# TYPE purgatory_queue_items gauge
purgatory_queue_items{queue="jobs"} 1
`), "purgatory_queue_items"))
}

// Whoever has most of a line is named, but no second one, and nobody while no one has four fifths of it.
func TestATenantThatHogsALineIsNamed(t *testing.T) {
	type tenants = map[string]queue.Tenant
	long := strings.Repeat("é", 150) // 300 bytes
	for name, c := range map[string]struct {
		tenants tenants
		waiting string // the labels and the value; empty: nobody hogs it
		items   string
	}{
		"nobody waits":             {},
		"nobody has a name":        {tenants: tenants{"": {Waiting: 1000, Items: 1000}}},
		"four fifths":              {tenants: tenants{"a": {Waiting: 8}, "b": {Waiting: 32}}, waiting: `tenant="b"} 32`},
		"less":                     {tenants: tenants{"a": {Waiting: 201}, "b": {Waiting: 799}}},
		"twenty":                   {tenants: tenants{"a": {Waiting: 20}}, waiting: `tenant="a"} 20`},
		"fewer":                    {tenants: tenants{"a": {Waiting: 19}}},
		"those without a name":     {tenants: tenants{"": {Waiting: 99}, "b": {Waiting: 1}}, waiting: `tenant=""} 99`},
		"items":                    {tenants: tenants{"a": {Items: 99}, "b": {Items: 1, Waiting: 19}}, items: `tenant="a"} 99`},
		"items of one, waits of b": {tenants: tenants{"a": {Items: 20}, "b": {Waiting: 20}}, items: `tenant="a"} 20`, waiting: `tenant="b"} 20`},
		"what a client has chosen": {tenants: tenants{"\xff\"\n": {Waiting: 20}}, waiting: `tenant="�\"\n"} 20`},
		"a long name":              {tenants: tenants{long: {Waiting: 20}}, waiting: `tenant="` + long[:200] + `"} 20`},
		"a long one, cut in half":  {tenants: tenants{"a" + long: {Waiting: 20}}, waiting: `tenant="a` + long[:198] + `"} 20`},
		"a long one, not UTF-8":    {tenants: tenants{strings.Repeat("\xffa", 200): {Waiting: 20}}, waiting: `tenant="` + strings.Repeat("�a", 50) + `"} 20`},
	} {
		c1, err := New()
		require.NoError(t, err)
		require.NoError(t, c1.AddQueue("jobs", counted{Tenants: c.tenants}))
		problems, err := testutil.CollectAndLint(c1)
		require.NoError(t, err, name)
		assert.Empty(t, problems)
		for metric, want := range map[string]string{"purgatory_queue_hog_waiting": c.waiting, "purgatory_queue_hog_items": c.items} {
			text, err := testutil.CollectAndFormat(c1, expfmt.TypeTextPlain, metric)
			require.NoError(t, err, name)
			if want == "" {
				assert.Empty(t, string(text), name)
			} else {
				assert.Contains(t, string(text), metric+`{queue="jobs",`+want+"\n", name)
				assert.Equal(t, 1, testutil.CollectAndCount(c1, metric), name)
			}
		}
	}
}

// The page and the collector agree about who hogs a line of the library, while it fills and empties.
func TestTheCollectorNamesWhomThePageNames(t *testing.T) {
	line, err := queue.New[int]()
	require.NoError(t, err)
	c, err := New()
	require.NoError(t, err)
	require.NoError(t, c.AddQueue("gate", line))
	page, err := debug.New()
	require.NoError(t, err)
	defer page.Close()
	require.NoError(t, page.AddQueue("gate", line))
	named := 0
	for i := range 60 {
		if tenant := []string{"flood", "quiet"}[min(i%6, 1)]; i < 30 {
			_, err = line.Start(timer.Never, nil, queue.Place{Tenant: tenant}) // five of quiet's for each of flood's
		} else if _, err = line.Start(timer.Never, nil, queue.Place{Tenant: "flood"}); i > 50 {
			require.NoError(t, line.Put(i))
		}
		require.NoError(t, err)
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?format=text", nil))
		onPage := regexp.MustCompile(`tenant "(\w+)" has (\d+) of the`).FindStringSubmatch(answer.Body.String())
		text, err := testutil.CollectAndFormat(c, expfmt.TypeTextPlain, "purgatory_queue_hog_waiting")
		require.NoError(t, err)
		exported := regexp.MustCompile(`tenant="(\w+)"} (\d+)`).FindStringSubmatch(string(text))
		require.Len(t, exported, len(onPage), "%s%s", answer.Body, text)
		if len(onPage) > 0 {
			named++
			assert.Equal(t, onPage[1:], exported[1:])
		}
	}
	assert.True(t, named > 5 && named < 55, named)
}
