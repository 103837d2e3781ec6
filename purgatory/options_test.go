package purgatory_test

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestOptionsOutOfRangeAreErrors(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	tests := map[string]struct {
		opts []purgatory.Option
		says string
	}{
		"nil option":            {[]purgatory.Option{nil}, "nil Option"},
		"tick":                  {[]purgatory.Option{purgatory.WithTick(0)}, "0s"},
		"tick without a unit":   {[]purgatory.Option{purgatory.WithTick(30)}, "tick is 30ns, must be at least 1µs; a number without a unit counts nanoseconds"},
		"wheel size":            {[]purgatory.Option{purgatory.WithTimerOptions(timer.WithWheelSize(1))}, "1"},
		"timer shards":          {[]purgatory.Option{purgatory.WithTimerOptions(timer.WithShards(3))}, "3"},
		"watcher shards, none":  {[]purgatory.Option{purgatory.WithWatcherShards(0)}, "0"},
		"watcher shards, odd":   {[]purgatory.Option{purgatory.WithWatcherShards(12)}, "12"},
		"watcher shards, many":  {[]purgatory.Option{purgatory.WithWatcherShards(1 << 17)}, "131072"},
		"purge interval":        {[]purgatory.Option{purgatory.WithPurgeInterval(-1)}, "-1"},
		"too many key stats":    {[]purgatory.Option{purgatory.WithKeyStats(1<<20 + 1)}, "1048577"},
		"reap interval":         {[]purgatory.Option{purgatory.WithReapInterval(0)}, "0s"},
		"workers":               {[]purgatory.Option{purgatory.WithExpiryWorkers(0)}, "0"},
		"maximum":               {[]purgatory.Option{purgatory.WithMaxPending(-3)}, "-3"},
		"slow callback":         {[]purgatory.Option{purgatory.WithSlowCallback(-1)}, "-1ns"},
		"panic handler":         {[]purgatory.Option{purgatory.WithPanicHandler(nil)}, "panic handler"},
		"logger":                {[]purgatory.Option{purgatory.WithLogger(nil)}, "logger"},
		"timer with tick":       {[]purgatory.Option{purgatory.WithTimer(clock), purgatory.WithTick(time.Second)}, "injected"},
		"no timer":              {[]purgatory.Option{purgatory.WithTimer(nil)}, "nil"},
		"timer that is nil":     {[]purgatory.Option{purgatory.WithTimer((*timer.SystemTimer)(nil))}, "*timer.SystemTimer"},
		"timer in a wrapper":    {[]purgatory.Option{purgatory.WithTimer(struct{ timer.Timer }{clock})}, "struct { timer.Timer }"},
		"hand-held that is nil": {[]purgatory.Option{purgatory.WithTimer((*timer.ManualTimer)(nil))}, "*timer.ManualTimer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := purgatory.New[string]("test", test.opts...)
			assert.Nil(t, p)
			require.ErrorIs(t, err, purgatory.ErrInvalidOption)
			assert.ErrorContains(t, err, test.says)
			assert.ErrorContains(t, err, `purgatory "test": invalid option: `)
		})
	}
}

func TestExtremeOptionValuesWork(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"smallest": {
			purgatory.WithTick(time.Microsecond), purgatory.WithTimerOptions(timer.WithWheelSize(2)), purgatory.WithTimerOptions(timer.WithShards(1)), purgatory.WithWatcherShards(1),
			purgatory.WithPurgeInterval(0), purgatory.WithReapInterval(time.Millisecond), purgatory.WithExpiryWorkers(1), purgatory.WithMaxPending(1),
		},
		"large": {
			purgatory.WithTick(hour), purgatory.WithTimerOptions(timer.WithWheelSize(1 << 12)), purgatory.WithTimerOptions(timer.WithShards(64)), purgatory.WithWatcherShards(1 << 16),
			purgatory.WithPurgeInterval(math.MaxInt), purgatory.WithReapInterval(hour), purgatory.WithExpiryWorkers(math.MaxInt), purgatory.WithMaxPending(math.MaxInt), purgatory.WithKeyStats(1 << 20),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open[string](t, opts...)
			var met atomic.Bool
			o := until(&met)
			submit(t, p, o, hour, "a", "b")
			met.Store(true)
			p.Signal("b")
			eventually(t, func() bool { return o.completed.Load() == 1 }, "the check of a signalled key")
			ended(t, o, operation.Satisfied)
			expiring := &op{}
			submit(t, p, expiring, 0, "a")
			eventually(t, func() bool { return expiring.expired.Load() == 1 }, "expiry at once")
		})
	}
}
