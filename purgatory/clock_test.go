package purgatory_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

func TestAClockThatStalledForAnHourCatchesUp(t *testing.T) {
	const ops = 2000
	p := onManualClock[int](t)
	all := make([]*op, ops)
	for i := range all {
		all[i] = &op{}
		submit(t, p, all[i], time.Duration(i+1)*hour/ops, i%17)
	}
	later := submitted(t, p, 3)
	later.expire = func() { t.Error("expired early") }
	assert.True(t, p.Extend(later, hour+time.Millisecond))
	assert.True(t, p.AdvanceClock(hour))
	for i, o := range all {
		require.Equal(t, operation.Expired, o.Outcome(), i)
		ended(t, o, operation.Expired)
	}
	pending(t, later)
	assert.Equal(t, 1, p.NumDelayed())
	assert.True(t, p.ForceComplete(later))
	empty(t, p)
}

func TestAnOperationAddedAfterAStallIsOnTime(t *testing.T) {
	p := onManualClock[string](t)
	p.AdvanceClock(1000 * hour)
	o := &op{}
	submit(t, p, o, time.Second, "a")
	p.AdvanceClock(time.Second - 2*time.Millisecond)
	pending(t, o)
	p.AdvanceClock(2 * time.Millisecond)
	ended(t, o, operation.Expired)
}

func TestManyExpiriesDoNotDisturbRegistrations(t *testing.T) {
	const registering = 4
	ops := howMany(100_000, 30_000)
	p := open[int](t)
	var expired, second atomic.Int64
	for i := range ops / 2 {
		submit(t, p, &op{expire: func() { expired.Add(1) }}, 50*time.Millisecond, i%1000)
	}
	var group sync.WaitGroup
	for g := range registering {
		group.Go(func() {
			for i := g; i < ops/2; i += registering {
				o := &op{complete: func() { second.Add(1) }}
				_, err := p.TryCompleteElseWatch(o, hour, i%1000, -1-i)
				assert.NoError(t, err)
				if i%3 == 0 {
					p.CancelForKey(-1-i, nil)
				}
			}
		})
	}
	group.Wait()
	eventually(t, func() bool { return expired.Load() == int64(ops/2) }, "all of the first half expire")
	s := p.Stats()
	assert.EqualValues(t, ops/2, s.Expired)
	assert.EqualValues(t, ops, s.Accepted)
	assert.Equal(t, s.Cancelled, second.Load())
	require.NoError(t, p.Close())
	eventually(t, func() bool { return second.Load() == int64(ops/2) }, "all of the second half are answered")
	empty(t, p)
}
