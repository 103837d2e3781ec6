package signals

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// empty is a purgatory in which nothing waits.
type empty struct{}

func (empty) SignalUpTo(string, int64) bool { return false }
func (empty) Keys() iter.Seq[string]        { return func(func(string) bool) {} }

// asking is a source that calls something when it is asked how full its queue is.
type asking struct {
	runs chan struct{}
	call func()
}

func (a asking) Run(ctx context.Context, _ Sink[string]) error {
	close(a.runs)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (a asking) QueueUsed() float64 { a.call(); return 0.5 }

// The queue of a source is asked with no lock held: it may report a gap or a hint, and stop the runner.
func TestAQueueMayCallTheRunner(t *testing.T) {
	r, err := To[string](empty{}, WithLag(firstPause))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	asked := 0
	source := asking{make(chan struct{}), func() {
		if asked++; !assert.True(t, r.mu.TryLock(), "it is free") {
			return
		}
		r.mu.Unlock()
		r.Missed(nil)
		r.Changed("a", 1)
		r.Saw("a", 0)
		r.Heard(1)
		if asked == 1 {
			stop()
			assert.ErrorIs(t, <-ended, context.Canceled)
		}
	}}
	go func() { ended <- r.Run(ctx, source) }()
	<-source.runs
	assert.InDelta(t, 0.5, r.Stats().QueueUsed, 0)
	assert.False(t, r.Stats().Running)
	assert.Equal(t, 2, asked)
	stop()
}

// Of two reads that are behind at the same moment, the longer lag counts.
func TestTheLongestLagCountsWhoeverRaces(t *testing.T) {
	r, err := To[string](empty{}, WithLag(time.Hour))
	require.NoError(t, err)
	r.Changed("a", 2)
	first := time.Now()
	time.Sleep(50 * time.Millisecond)
	r.Changed("b", 2)
	for range 60_000 {
		r.lag.Store(0)
		least := int64(time.Since(first))
		var ready atomic.Int32
		var group sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			group.Go(func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				r.Saw(key, 1)
			})
		}
		group.Wait()
		require.GreaterOrEqual(t, r.lag.Load(), least)
	}
}
