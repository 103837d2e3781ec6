package purgatory_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Tests that what is stuck stops nobody else.

// blockingLogs is a handler that blocks for records of one event until the test ends.
type blockingLogs struct {
	event   string
	entered atomic.Int32
	leave   chan struct{}
}

func (b *blockingLogs) Enabled(context.Context, slog.Level) bool { return true }
func (b *blockingLogs) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *blockingLogs) WithGroup(string) slog.Handler            { return b }
func (b *blockingLogs) Handle(_ context.Context, r slog.Record) error {
	if r.Message == b.event {
		b.entered.Add(1)
		<-b.leave
	}
	return nil
}

// blockingKey is a key whose String method blocks.
type blockingKey struct{ of *keyText }

type keyText struct {
	entered atomic.Int32
	leave   chan struct{}
}

func (k blockingKey) String() string {
	if k.of != nil {
		k.of.entered.Add(1)
		<-k.of.leave
	}
	return "key"
}

// While 300 callbacks are stuck and the logger, or the String method of a key, blocks with the
// record of one, other operations expire.
func TestTimeoutsPassWhileARecordOfAStuckCallbackBlocks(t *testing.T) {
	for _, blocks := range []string{"logger", "key"} {
		t.Run(blocks, func(t *testing.T) {
			logs := &blockingLogs{leave: make(chan struct{})}
			if blocks == "logger" {
				logs.event = purgatory.EventStuck
			}
			texts := &keyText{leave: make(chan struct{})}
			p := open[blockingKey](t, purgatory.WithSlowCallback(time.Millisecond), purgatory.WithStuckStacks(),
				purgatory.WithReapInterval(5*time.Millisecond), purgatory.WithLogger(slog.New(logs)))
			out := make(chan struct{})
			var key blockingKey
			if blocks == "key" {
				key.of = texts
			}
			var wg sync.WaitGroup
			var in atomic.Int32
			for range 300 {
				o := &op{complete: func() { in.Add(1); <-out }}
				submit(t, p, o, hour, key)
				wg.Go(func() { p.ForceComplete(o) })
			}
			eventually(t, func() bool { return in.Load() == 300 }, "300 callbacks are stuck")
			eventually(t, func() bool { return logs.entered.Load()+texts.entered.Load() > 0 }, "a record blocks")
			for range 20 {
				o := &op{}
				submit(t, p, o, 5*time.Millisecond, blockingKey{})
				require.True(t, inTime(func() bool { return o.expired.Load() == 1 }), "no timeout passes")
			}
			close(logs.leave)
			close(texts.leave)
			close(out)
			wg.Wait()
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

// small has the size of 224 bytes that a slice's neighbours share.
type small struct {
	operation.DelayedOperation
	try func()
	_   [96]byte
}

func (s *small) TryComplete() bool { s.try(); return false }
func (s *small) OnComplete()       {}
func (s *small) OnExpiration()     {}

// Registrations without time, each made inside the TryComplete of the one before, keep the
// stack small.
func TestRegistrationsWithoutTimeInTryCompleteKeepTheStackSmall(t *testing.T) {
	for _, inSlice := range []bool{false, true} {
		for _, opts := range [][]purgatory.Option{nil, {purgatory.WithFirstInFirstOut()}} {
			n := int64(howMany(50_000, 15_000)) // without a bound more frames than are allowed
			p := onManualClock[int](t, opts...)
			var all []small
			if inSlice {
				all = make([]small, n)
			}
			var deepest, next, returned atomic.Int64
			var try func()
			try = func() {
				i := next.Add(1)
				if i > n {
					return
				}
				if i%2048 == 0 {
					pcs := make([]uintptr, 1<<16)
					deepest.Store(max(deepest.Load(), int64(runtime.Callers(0, pcs))))
				}
				o := &small{}
				if inSlice {
					o = &all[i-1]
				}
				o.try = try
				_, err := p.TryCompleteElseWatch(o, time.Duration(-(i % 2)), int(i))
				assert.NoError(t, err)
				returned.Add(1)
			}
			try()
			// Shutdown refuses a registration that goes on beside it.
			require.True(t, inTime(func() bool { return next.Load() > n && returned.Load() == n }), "%d, %d", next.Load(), returned.Load())
			assert.Less(t, deepest.Load(), int64(40_000), "frames")
			p.AdvanceClock(time.Millisecond)
			require.NoError(t, p.Shutdown(t.Context()))
		}
	}
}
