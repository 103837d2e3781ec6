package prometheus

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/queue"
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
