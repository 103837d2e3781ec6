package purgatory

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

func TestInspectCountsEachKeyApart(t *testing.T) {
	p := newManual(t, WithKeyStats(512))
	for range 3 {
		submit(t, p, time.Second, "forgotten") // no goroutine checks this key
	}
	stays := submit(t, p, time.Hour, "busy")
	for range 10 {
		p.CheckAndComplete("busy")
	}
	p.AdvanceClock(2 * time.Second)
	stays.says = "fetch of 1 MB"

	in := p.Inspect(10, 10)
	require.Len(t, in.Hot, 2)
	busy := in.Hot[0]
	assert.Equal(t, "busy", busy.Key)
	assert.Equal(t, KeyReport{Key: "busy", Waiting: 1, Watched: 1, Tries: 10, Wasted: 10}, busy)
	assert.False(t, busy.OnlyTimeouts())
	require.Len(t, in.Expiring, 1)
	assert.Equal(t, "forgotten", in.Expiring[0].Key)
	assert.EqualValues(t, 3, in.Expiring[0].Ended[operation.Expired])
	assert.True(t, in.Expiring[0].OnlyTimeouts())

	require.Len(t, in.Oldest, 1)
	assert.Equal(t, 1, in.Looked)
	none := p.Inspect(0, 0)
	assert.Equal(t, Inspection{Wheels: none.Wheels}, none, "nobody asked")
	assert.Equal(t, OperationReport{
		Type: "*purgatory.probe", Text: "fetch of 1 MB", Key: "busy", Keys: 1,
		Age: 2 * time.Second, Left: time.Hour - 2*time.Second,
	}, in.Oldest[0])
	assert.Equal(t, 1, in.Wheels.Pending)
}

// A report never has the deadline of an operation that has ended.
func TestInspectReportsNoDeadlineOfAnEndedOperation(t *testing.T) {
	p := newManual(t)
	p.AdvanceClock(time.Hour)
	first := submit(t, p, time.Minute, "a")
	p.AdvanceClock(time.Second)
	second := submit(t, p, time.Minute, "b")
	first.while = func() {
		p.ForceComplete(first) // ends it after its String method has run
		p.ForceComplete(second)
	}
	reports := p.Inspect(0, 10).Oldest
	require.Len(t, reports, 1, "the second has ended since it was found")
	assert.Equal(t, 59*time.Second, reports[0].Left)
	assert.Equal(t, operation.Forced, first.Outcome())

	var registering []OperationReport
	third := &probe{}
	third.while = func() { registering = p.Inspect(0, 10).Oldest }
	_, err := p.TryCompleteElseWatch(third, time.Minute, "c")
	require.NoError(t, err)
	require.Len(t, registering, 1, "at its second try it is watched")
	assert.Equal(t, time.Minute, registering[0].Left, "and in the timer")
}

// Inspect puts the oldest operations and the busiest keys first, and returns no more than
// it is asked for.
func TestInspectSortsByAgeAndByEvents(t *testing.T) {
	p := newManual(t, WithKeyStats(1<<12))
	for i := range 10 {
		for range i + 1 {
			submit(t, p, time.Second, fmt.Sprint("key ", i))
		}
	}
	p.AdvanceClock(time.Minute)
	for i := range 10 {
		submit(t, p, time.Hour, fmt.Sprint("key ", i))
		p.AdvanceClock(time.Minute)
	}
	in := p.Inspect(3, 2)
	require.Len(t, in.Expiring, 3)
	for i := range 3 {
		assert.EqualValues(t, 10-i, in.Expiring[i].Ended[operation.Expired])
	}
	require.Len(t, in.Oldest, 2)
	assert.Equal(t, "key 0", in.Oldest[0].Key)
	assert.Equal(t, 10*time.Minute, in.Oldest[0].Age)
	assert.Equal(t, "key 1", in.Oldest[1].Key)
	assert.Equal(t, 9*time.Minute, in.Oldest[1].Age)
}

// Inspect visits a bounded number of operations. The test counts visits, not time.
func TestInspectVisitsABoundedNumberOfOperations(t *testing.T) {
	p := newManual(t, WithKeyStats(512))
	for i := range 20_000 {
		submit(t, p, time.Hour, fmt.Sprint(i%5000), "everybody")
	}
	in := p.Inspect(20, 20)
	assert.LessOrEqual(t, in.Looked, sampling)
	assert.Len(t, in.Hot, 20)
	assert.Len(t, in.Oldest, 20)
	assert.Equal(t, "everybody", in.Hot[0].Key)
	assert.Equal(t, 20_000, in.Hot[0].Waiting)
}

// Inspect allocates for what there is, whatever its caller asks for.
func TestInspectOfMoreOperationsThanThereAre(t *testing.T) {
	p := newManual(t)
	submit(t, p, time.Hour, "a")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := p.Inspect(math.MaxInt, math.MaxInt)
	runtime.ReadMemStats(&after)
	assert.Len(t, in.Oldest, 1)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

// Inspect calls String only where there is one.
func TestInspectCallsNoMethodOfAnOperationWithoutString(t *testing.T) {
	p := newManual(t)
	_, err := p.TryCompleteElseWatch(&silent{}, time.Hour, "a")
	require.NoError(t, err)
	in := p.Inspect(0, 1)
	require.Len(t, in.Oldest, 1)
	assert.Equal(t, "*purgatory.silent", in.Oldest[0].Type)
	assert.Empty(t, in.Oldest[0].Text)
	assert.Zero(t, p.Stats().Panics)
}
