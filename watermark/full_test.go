package watermark

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// Goroutines that begin together for one position need one place.
func TestThoseWhoBeginTogetherNeedOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurgatory(t, purgatory.WithMaxPending(1))
		w := New(p, "a", 0)
		const rounds, goroutines = 300, 8
		errs := make(chan error, goroutines)
		for round := range int64(rounds) {
			begin := make(chan struct{})
			for range goroutines {
				go func() {
					<-begin
					errs <- w.Await(context.Background(), purgatory.NoTimeout, round+1)
				}()
			}
			synctest.Wait()
			close(begin)
			synctest.Wait()
			require.Empty(t, errs)
			w.Advance(round + 1)
			for range goroutines {
				require.NoError(t, <-errs)
			}
		}
		left(t, w)
	})
}

// A goroutine that has joined a registration which is refused tries for itself: the purgatory may have been full
// before the goroutine came only.
func TestARefusalFromBeforeACallIsNotItsAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		s, _, err := enter(w, 5)
		require.NoError(t, err)
		joined := await(w, 5)
		full := purgatory.ErrFull
		s.end(&full)
		joined.waits(t)
		require.Equal(t, 1, p.NumDelayed())
		w.Advance(5)
		joined.returned(t, nil)
		left(t, w)
	})
}

// A second registration that it has joined began after it had come, and speaks for it.
func TestASecondRefusalIsTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		first, _, err := enter(w, 5)
		require.NoError(t, err)
		joined := await(w, 5)
		w.mu.Lock()
		w.mu.first = nil
		w.mu.Unlock()
		second, starts, err := enter(w, 5)
		require.NoError(t, err)
		require.True(t, starts)
		full := purgatory.ErrFull
		first.end(&full)
		joined.waits(t)
		require.EqualValues(t, 2, second.entered)
		second.end(&full)
		joined.returned(t, purgatory.ErrFull)
		left(t, w)
	})
}

// A position that is reached while the purgatory refuses a wait is reached for all.
func TestAReachedPositionIsNotRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		s, _, err := enter(w, 5)
		require.NoError(t, err)
		joined := await(w, 5)
		w.Advance(5)
		require.NoError(t, p.Close())
		require.NoError(t, s.start())
		joined.returned(t, nil)
		require.NoError(t, s.err())
		left(t, w)
	})
}
