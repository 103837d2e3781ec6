package purgatory_test

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	uatomic "go.uber.org/atomic"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestExtendMovesTheDeadline(t *testing.T) {
	for name, moves := range map[string][]time.Duration{
		"later":               {10 * time.Second},
		"earlier":             {time.Millisecond},
		"later, then earlier": {hour, 3 * time.Second},
		"earlier, then later": {time.Millisecond, hour},
		"as it was":           {time.Second},
		"to the end of time":  {math.MaxInt64, 7 * time.Second},
		"back and forth":      {hour, 2, hour, 2 * time.Second, 30 * hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			o := &op{}
			submit(t, p, o, time.Second, "a", "b")
			p.AdvanceClock(500 * time.Millisecond)
			var last time.Duration
			for _, move := range moves {
				assert.True(t, p.Extend(o, move))
				last = move
			}
			if last > time.Millisecond {
				p.AdvanceClock(last - 1)
				pending(t, o)
			}
			p.AdvanceClock(time.Millisecond)
			ended(t, o, operation.Expired)
			assert.False(t, p.Extend(o, hour), "it has ended")
			p.AdvanceClock(100 * hour)
			ended(t, o, operation.Expired)
		})
	}
}

func TestExtendByZeroExpiresAtOnceOnAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		for _, timeout := range []time.Duration{0, -1, math.MinInt64} {
			o := &op{}
			submit(t, p, o, hour, "a")
			assert.True(t, p.Extend(o, timeout))
			time.Sleep(time.Millisecond)
			synctest.Wait()
			ended(t, o, operation.Expired)
		}
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestExtendReturnsFalseForEndedOrUnacceptedOperations(t *testing.T) {
	p := onManualClock[string](t)
	var during bool
	o := &op{}
	o.try = func() bool { during = during || p.Extend(o, hour); return false }
	assert.False(t, p.Extend(o, hour))
	submit(t, p, o, time.Second, "a")
	assert.False(t, during, "still registering")
	p.CheckAndComplete("a")
	assert.True(t, during, "inside a check it is in time")
	o.complete = func() { assert.False(t, p.Extend(o, hour)) }
	p.AdvanceClock(hour)
	ended(t, o, operation.Expired)
	for name, end := range map[string]func(o *op){
		"forced":    func(o *op) { p.ForceComplete(o) },
		"cancelled": func(o *op) { p.Cancel(o, nil) },
		"satisfied": func(o *op) { o.try = func() bool { return true }; p.CheckAndComplete("a") },
	} {
		o := submitted(t, p, "a")
		end(o)
		assert.False(t, p.Extend(o, hour), name)
	}
}

func TestExtendAndExpiryHaveOneWinner(t *testing.T) {
	// Heartbeats race expiries. An Extend that returns true postpones the expiry; after the
	// first one that returns false the operation has ended or is ending.
	p := open[int](t, purgatory.WithTick(20*time.Microsecond))
	const rounds = 100
	var inTime, tooLate atomic.Int64
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := range rounds {
				var promised time.Duration // the operation does not expire before this
				var expiredAt uatomic.Duration
				started := time.Now()
				o := &op{expire: func() { expiredAt.Store(time.Since(started)) }}
				timeout := time.Duration(20+i%60) * time.Microsecond
				_, err := p.TryCompleteElseWatch(o, timeout, g)
				assert.NoError(t, err)
				for range 2000 {
					now := time.Since(started)
					if !p.Extend(o, timeout) {
						tooLate.Add(1)
						break
					}
					promised = now + timeout // counted from before the call
					inTime.Add(1)
					runtime.Gosched()
				}
				eventually(t, func() bool { return expiredAt.Load() > 0 }, "it expires in the end")
				assert.GreaterOrEqual(t, expiredAt.Load(), promised, "expired although extended in time")
				assert.False(t, p.Extend(o, hour))
				ended(t, o, operation.Expired)
			}
		})
	}
	wg.Wait()
	empty(t, p)
	assert.EqualValues(t, 2*rounds, conserved(t, p).Expired)
	t.Logf("%d in time, %d too late", inTime.Load(), tooLate.Load())
}

func TestAMillionExtendsCauseOneExpiry(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	submit(t, p, o, time.Second, "member")
	beats := 1_000_000
	if purgatory.RaceDetector || testing.Short() {
		beats /= 10
	}
	for i := range beats {
		if !p.Extend(o, time.Second) {
			require.FailNow(t, "too late", "heartbeat %d", i)
		}
		if i%16 == 0 {
			p.AdvanceClock(900 * time.Millisecond)
		}
	}
	pending(t, o)
	p.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
	empty(t, p)
}

func TestExtendAllocatesNothing(t *testing.T) {
	p := onManualClock[string](t)
	o := submitted(t, p, "a")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { p.Extend(o, 2*hour) }))
	assert.Zero(t, testing.AllocsPerRun(1000, func() { p.Extend(o, hour); p.Extend(o, 2*hour) }))
}
