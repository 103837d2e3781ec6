package signals

import (
	"context"
	"iter"
	"testing"

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
