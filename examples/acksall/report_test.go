package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPercentileIsOneOfTheMeasured(t *testing.T) {
	var d durations
	for i := 100; i >= 1; i-- {
		d.add(time.Duration(i))
	}
	sorted := d.sorted()
	assert.Equal(t, time.Duration(1), percentile(sorted, 0))
	assert.Equal(t, time.Duration(50), percentile(sorted, 50))
	assert.Equal(t, time.Duration(99), percentile(sorted, 99))
	assert.Equal(t, time.Duration(100), percentile(sorted, 100))
	assert.Equal(t, time.Duration(2), percentile([]time.Duration{1, 2, 3}, 50))
	assert.Equal(t, time.Duration(7), percentile([]time.Duration{7}, 99))
	assert.Zero(t, percentile(nil, 50))
}

func TestHistogramBucketsAndBars(t *testing.T) {
	var h histogram
	for range 60 {
		h.add(125*time.Microsecond, none)
	}
	h.add(126*time.Microsecond, requestTimedOut)
	h.add(250*time.Microsecond, notLeader)
	h.add(600*time.Microsecond, none)
	var out strings.Builder
	h.write(&out)
	assert.Equal(t, strings.Join([]string{
		"      <= 125µs       60 " + strings.Repeat("#", 60),
		"      <= 250µs        2 Tx",
		"      <= 500µs        0 ",
		"        <= 1ms        1 #",
		"",
	}, "\n"), out.String())
}

func TestHistogramHasRoomForEveryLatency(t *testing.T) {
	var h histogram
	h.add(0, none)
	h.add(1000*time.Hour, none)
	var out strings.Builder
	h.write(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Len(t, lines, len(h.buckets))
	assert.Contains(t, lines[len(lines)-1], "> 2m11.072s")
	var none strings.Builder
	new(histogram).write(&none)
	assert.Empty(t, none.String())
}

func TestListedIsShort(t *testing.T) {
	all := newController(6, 1).ledPartitions()[0]
	assert.Equal(t, "orders-0", listed(all[:1]))
	assert.Equal(t, "orders-0, orders-1, orders-2, orders-3", listed(all[:4]))
	assert.Equal(t, "orders-0, orders-1, orders-2, orders-3, and 2 more", listed(all))
}

func TestTargetsPickPartitionsOfOneLeader(t *testing.T) {
	led := newController(6, 3).ledPartitions()
	for range 100 {
		broker, partitions := newTargets(led).pick(2)
		assert.ElementsMatch(t, led[broker], partitions)
	}
	_, partitions := newTargets(led).pick(9)
	assert.Len(t, partitions, 2, "at most what the broker leads, none twice")
}
