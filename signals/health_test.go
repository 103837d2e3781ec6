package signals_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// An alert looks at Standing alone: it must not stay true after a source that did not return.
func TestASourceThatPanicsOrExitsDoesNotStand(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("source") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := signals.To[string](nobody{})
			require.NoError(t, err)
			var done sync.WaitGroup
			done.Go(func() {
				defer func() { _ = recover() }()
				_ = r.Run(t.Context(), signals.SourceFunc[string](func(_ context.Context, sink signals.Sink[string]) error {
					sink.Missed(signals.ErrSubscribed)
					end()
					return nil
				}))
			})
			done.Wait()
			s := r.Stats()
			assert.False(t, s.Running)
			assert.False(t, s.Standing)
			assert.EqualValues(t, 1, s.Ends)
		})
	}
}

// Err is why the source broke: the end of Run's context is no reason, whatever its cause; and a source whose own
// context has ended is broken.
func TestErrIsTheErrorOfASourceWhoseContextHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := signals.To[string](nobody{}, signals.WithBackoff(time.Hour, time.Hour))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		synctest.Wait()
		stop() // with a cause other than context.Canceled
		assert.NoError(t, r.Stats().Err)

		stop = runIn(t, r, script(stands, func(signals.Sink[string]) error {
			return fmt.Errorf("request: %w", context.Canceled)
		}))
		synctest.Wait()
		assert.ErrorContains(t, r.Stats().Err, "request: ")
		stop()
		assert.ErrorContains(t, r.Stats().Err, "request: ", "it ended with this error last")
	})
}

// What is a part of another number is never more than it.
func TestStatsThatAreReadDuringHintsAgree(t *testing.T) {
	r, err := signals.To[string](nobody{})
	require.NoError(t, err)
	var over atomic.Bool
	var hinting sync.WaitGroup
	for range 2 {
		hinting.Go(func() {
			for !over.Load() {
				r.Changed("nobody", 1)
			}
		})
	}
	for range 20_000 {
		s := r.Stats()
		if !assert.LessOrEqual(t, s.Unawaited, s.Hints) || !assert.GreaterOrEqual(t, s.SinceLastWord, time.Duration(0)) {
			break
		}
	}
	over.Store(true)
	hinting.Wait()
}
