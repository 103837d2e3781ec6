package prometheus

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/watermark"
)

// come is a watermark whose numbers are known.
type come watermark.Stats

func (s come) Stats() watermark.Stats { return watermark.Stats(s) }

// Every number has a value that no other has. A field that watermark.Stats gains and nobody exports is an error too.
func TestEachNumberOfAWatermarkIsUnderItsName(t *testing.T) {
	exported := map[string]string{
		"Waiting": "waiting", "Oldest": "oldest_wait_seconds", "Served": "served_total", "Left": "given_up_total",
		"Expired": "expired_total", "Cancelled": "cancelled_total", "Refused": "refused_total",
	}
	n, value, want := watermark.Stats{TimeoutsExpected: true}, int64(1000), map[string]int64{"timeouts_expected": 1}
	of := reflect.ValueOf(&n).Elem()
	for i := range of.NumField() {
		if v := of.Field(i); v.CanInt() {
			value += 7
			v.SetInt(value)
			if v.Type() == reflect.TypeFor[time.Duration]() {
				v.SetInt(value * int64(time.Second))
			}
			require.Contains(t, exported, of.Type().Field(i).Name)
			want[exported[of.Type().Field(i).Name]] = value
		}
	}
	require.Len(t, want, len(watermarkMetrics))
	c, err := New()
	require.NoError(t, err)
	require.NoError(t, c.AddWatermark("replicated", come(n)))
	text := scrape(t, c)
	for name, value := range want {
		assert.Contains(t, text, fmt.Sprintf("\npurgatory_watermark_%s{watermark=\"replicated\"} %d\n", name, value))
	}
	require.ErrorIs(t, c.AddWatermark("replicated", come{}), ErrName)
	require.ErrorIs(t, c.AddWatermark("none", nil), ErrNilSource)
	c.RemoveWatermark("replicated")
	assert.Zero(t, testutil.CollectAndCount(c))
	require.NoError(t, c.AddWatermark("replicated", watermark.New(newPurgatory[string](t, "p"), "a", 0)))
	assert.Contains(t, scrape(t, c), `purgatory_watermark_waiting{watermark="replicated"} 0`)
}
