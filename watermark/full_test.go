package watermark

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
		require.EqualValues(t, 1, w.Stats().Refused, "one registration, of two who wait")
		w.Advance(5)
		joined.returned(t, nil)
		left(t, w)
	})
}

// rings stops an alarm before it rings.
type rings struct {
	entered, leave chan struct{}
	of             interface{ ring(m *member) }
}

func (r rings) ring(m *member) { close(r.entered); <-r.leave; r.of.ring(m) }

// Its timeout passes while the purgatory refuses it: it does not try for itself with an alarm that is about to ring.
func TestARefusalBesideATimeoutIsATimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		s, _, err := enter(w, 5)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- w.Await(t.Context(), time.Minute, 5) }()
		synctest.Wait()
		r := rings{make(chan struct{}), make(chan struct{}), s}
		s.last.alarm.of = r
		go p.AdvanceClock(time.Minute)
		<-r.entered
		full := purgatory.ErrFull
		s.end(&full)
		synctest.Wait()
		require.Len(t, ended, 1)
		require.ErrorIs(t, <-ended, purgatory.ErrExpired)
		close(r.leave)
		synctest.Wait()
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

// A position that is reached while the timer refuses the timeout is reached: the check of that Advance has yet to find the wait.
func TestAReachedPositionIsReachedThoughTheTimerIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		m := w.timed(time.Minute, true)
		s, _, starts, err := w.enter(arrival{inBubble: true, m: m}, 5)
		require.NoError(t, err)
		require.True(t, starts)
		require.NoError(t, s.start())
		p.Timer().Entries().Stop() // refuses, as one that is full
		w.at.Store(5)
		how, _, _, err := s.sit(m, nil)
		require.Equal(t, getsThere, how)
		require.NoError(t, err)
		require.EqualValues(t, 1, w.Stats().Served)
		left(t, w)
	})
}
