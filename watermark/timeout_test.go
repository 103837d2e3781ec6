package watermark

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/built"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// awaitFor is await with a timeout.
func awaitFor(w *Watermark[string], timeout time.Duration, position int64) *waiter {
	ctx, cancel := context.WithCancelCause(context.Background())
	g := &waiter{cancel, make(chan error, 1)}
	go func() { g.err <- w.Await(ctx, timeout, position) }()
	synctest.Wait()
	return g
}

const tick = time.Millisecond

// Each has a timeout of its own, and takes nobody along.
func TestEqualWaitsShareAnOperationWhateverTheirTimeouts(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		second, first, never := awaitFor(w, 2*time.Second, 5), awaitFor(w, time.Second, 5), await(w, 5)
		require.Equal(t, []int{1, 3}, []int{p.NumDelayed(), w.Waiting()})
		p.AdvanceClock(time.Second - tick)
		first.waits(t)
		p.AdvanceClock(2 * tick)
		first.returned(t, purgatory.ErrExpired)
		require.Equal(t, []int{1, 2}, []int{p.NumDelayed(), w.Waiting()})
		second.waits(t)
		p.AdvanceClock(time.Second)
		second.returned(t, purgatory.ErrExpired)
		never.waits(t)
		w.Advance(5)
		never.returned(t, nil)
		require.Equal(t, Stats{Served: 1, Expired: 2}, w.Stats())
		require.Zero(t, p.Stats().Expired, "the operation has not")
		left(t, w)
	})
}

// The operation of the last ends with it; that it has timed out is counted here.
func TestTheLastThatTimesOutEndsTheOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		gone, stays := awaitFor(w, time.Second, 5), awaitFor(w, time.Second, 5)
		gone.leave(errGone)
		gone.returned(t, errGone)
		p.AdvanceClock(time.Second + tick)
		require.Equal(t, []int64{0, 1, 0}, []int64{p.Stats().Expired, p.Stats().Cancelled, p.Stats().Pending}, "before the goroutine runs")
		stays.returned(t, purgatory.ErrExpired)
		require.Equal(t, Stats{Left: 1, Expired: 1}, w.Stats())
		left(t, w)
	})
}

func TestATimeoutSaysWhatItWas(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 5)
	for _, timeout := range []time.Duration{0, -time.Second, math.MinInt64} {
		err := w.Await(context.Background(), timeout, 6)
		require.ErrorIs(t, err, purgatory.ErrExpired)
		require.ErrorContains(t, err, "position 6")
		require.ErrorContains(t, err, timeout.String())
		var timed net.Error
		require.True(t, errors.As(err, &timed) && timed.Timeout())
		require.NoError(t, w.Await(context.Background(), timeout, 5), "it was reached")
	}
	require.Equal(t, Stats{Expired: 3}, w.Stats())
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errGone)
	require.Equal(t, errGone, w.Await(ended, 0, 6), "who has left is told so first")
	require.Equal(t, Stats{Expired: 3, Left: 1}, w.Stats())
	require.Zero(t, p.Stats().Accepted)
	require.NoError(t, p.Close())
	left(t, w)
}

// The position is raised, and the timeout passes before the check.
func TestAPositionThatWasReachedInTimeIsReached(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		waits := awaitFor(w, time.Second, 5)
		w.at.Store(5)
		p.AdvanceClock(time.Second + tick)
		waits.returned(t, nil)
		require.Equal(t, Stats{Served: 1}, w.Stats())
		left(t, w)
	})
}

// The context ends, the wait is closed, or it is reached, when the timeout has passed and the goroutine has not run yet.
func TestAWaitLeavesOnce(t *testing.T) {
	for name, meanwhile := range map[string]func(w *Watermark[string], g *waiter){
		"its context ends": func(_ *Watermark[string], g *waiter) { g.leave(errGone) },
		"close":            func(w *Watermark[string], _ *waiter) { w.Close(errGone) },
		"advance":          func(w *Watermark[string], _ *waiter) { w.Advance(9) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
				for range 20 { // a select of two channels tosses a coin
					w := New(p, "b", 0)
					alone, other, stays := awaitFor(w, time.Second, 4), awaitFor(w, time.Second, 5), await(w, 5)
					p.AdvanceClock(time.Second + tick)
					meanwhile(w, alone)
					meanwhile(w, other)
					alone.returned(t, purgatory.ErrExpired)
					other.returned(t, purgatory.ErrExpired)
					require.EqualValues(t, 2, w.Stats().Expired)
					w.Advance(5)
					synctest.Wait()
					require.Len(t, stays.err, 1)
					s := w.Stats()
					require.EqualValues(t, 3, s.Served+s.Left+s.Expired+s.Cancelled)
					left(t, w)
				}
			})
		})
	}
}

// The alarm has taken a goroutine out and is about to wake it when the wait of the others ends.
func TestOneThatTimesOutTakesNobodysToken(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		timed, stays := awaitFor(w, time.Second, 5), await(w, 5)
		s := w.mu.first
		s.again = true // as outside of a bubble
		m := s.first
		require.True(t, w.p.Timer().Entries().Cancel(&m.alarm.entry), "as a worker does")
		s.ring(m)
		w.Close(errGone)
		stays.returned(t, errGone)
		timed.returned(t, purgatory.ErrExpired)
		left(t, w)
	})
}

// A timer that is full, or stopped, refuses a wait with a timeout. Those in its crowd wait on.
func TestATimerThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
		require.NoError(t, err)
		p, err := purgatory.New[string]("watermarks", purgatory.WithTimer(clock))
		require.NoError(t, err)
		defer p.Close()
		w := New(p, "a", 0)
		first, never := awaitFor(w, time.Hour, 5), await(w, 5)
		awaitFor(w, time.Hour, 5).returned(t, purgatory.ErrFull)
		awaitFor(w, time.Hour, 6).returned(t, purgatory.ErrFull)
		require.Equal(t, Stats{Waiting: 2, Refused: 2}, w.Stats())
		require.Equal(t, 1, p.NumDelayed())
		clock.Stop()
		awaitFor(w, time.Hour, 5).returned(t, purgatory.ErrClosed)
		w.Advance(5)
		first.returned(t, nil)
		never.returned(t, nil)
		left(t, w)
	})
}

// The timer belongs to the purgatory. What a wait has left to later ones may belong to another one.
func TestTimeoutsOnSeveralTimers(t *testing.T) {
	var purgatories []*strings
	for range 3 {
		purgatories = append(purgatories, newPurgatory(t))
	}
	for i := range 30 {
		p := purgatories[i%len(purgatories)]
		w := New(p, "a", 0)
		ended := make(chan error, 1)
		go func() { ended <- w.Await(t.Context(), time.Second, 5) }()
		clock := w.p.Timer().(*timer.ManualTimer)
		require.Eventually(t, func() bool { return clock.Pending() == 1 }, time.Minute, time.Millisecond, "it does not wait")
		if i%2 == 0 {
			w.Advance(5)
			require.NoError(t, <-ended)
		} else {
			p.AdvanceClock(time.Second + tick)
			require.ErrorIs(t, <-ended, purgatory.ErrExpired)
		}
		require.Zero(t, clock.Pending())
		left(t, w)
	}
}

// A purgatory with a timer of its own has no reaper before the first timeout.
func TestATimeoutOnThePurgatorysOwnTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("watermarks")
		require.NoError(t, err)
		defer p.Close()
		w := New(p, "a", 0)
		begin := time.Now()
		require.ErrorIs(t, w.Await(t.Context(), 30*time.Second, 5), purgatory.ErrExpired)
		require.InDelta(t, 30*time.Second, time.Since(begin), float64(2*tick))
		left(t, w)
	})
}

// Shutdown lets the waits time out.
func TestATimeoutDuringShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		waits := awaitFor(w, time.Second, 5)
		shut := make(chan error, 1)
		go func() { shut <- p.Shutdown(context.Background()) }()
		synctest.Wait()
		joins := awaitFor(w, 2*time.Second, 5)
		p.AdvanceClock(time.Second + tick)
		waits.returned(t, purgatory.ErrExpired)
		joins.waits(t)
		require.Empty(t, shut)
		p.AdvanceClock(time.Second)
		joins.returned(t, purgatory.ErrExpired)
		require.NoError(t, <-shut)
		left(t, w)
	})
}

func TestBadInputIsNamed(t *testing.T) {
	w := New(newPurgatory(t), "a", 0)
	require.PanicsWithValue(t, "watermark: Await was called with a nil context: use context.Background()",
		func() { _ = w.Await(nil, time.Second, 5) }) //nolint:staticcheck // a nil context is what is tested
	outside, err := purgatory.New[string]("outside")
	require.NoError(t, err)
	defer outside.Close()
	synctest.Test(t, func(t *testing.T) {
		w := New(outside, "a", 0)
		require.Panics(t, func() { _ = w.Await(t.Context(), time.Second, 5) }, "the timer says the rule")
		left(t, w)
	})
	require.Panics(t, func() { New[string](nil, "a", 0) })
	left(t, w)
}

// A timeout that does not pass costs no allocation beside the operation.
func TestAWaitWithATimeoutIsOneAllocation(t *testing.T) {
	if slices.Contains(built.Flags(), "-race=true") {
		t.Skip("the race detector makes a sync.Pool drop items")
	}
	w := New(newPurgatory(t), "a", 0)
	reach := make(chan int64, 1)
	var writer sync.WaitGroup
	writer.Go(func() {
		for position := range reach {
			w.Advance(position)
		}
	})
	position := int64(0)
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		position++
		reach <- position
		_ = w.Await(t.Context(), time.Hour, position)
	}), 1.0)
	close(reach)
	writer.Wait()
	left(t, w)
}

// Contexts end and timeouts pass while the position rises and other waits use again what is left: each wait ends for a
// reason that it has, and is counted once.
func TestTimeoutsBesideEverything(t *testing.T) {
	const goroutines, rounds = 8, 1500
	p := newPurgatory(t)
	w := New(p, "a", 0)
	var running, driving sync.WaitGroup
	var expired, gone, reached atomic.Int64
	for g := range goroutines {
		random := rand.New(rand.NewPCG(2, uint64(g)))
		running.Go(func() {
			for range rounds {
				ctx, cancel := context.WithCancelCause(context.Background())
				position, timeout := w.Position()+random.Int64N(3), time.Duration(random.IntN(4))*tick
				switch random.IntN(4) {
				case 0:
					position = 1 << 60 // nobody gets there
				case 1:
					running.Go(func() { cancel(errGone) })
				case 2:
					position, timeout = w.Position()+1, purgatory.NoTimeout
				}
				switch err := w.Await(ctx, timeout, position); {
				case err == nil:
					reached.Add(1)
					assert.GreaterOrEqual(t, w.Position(), position)
				case errors.Is(err, purgatory.ErrExpired):
					expired.Add(1)
					assert.NotEqual(t, purgatory.NoTimeout, timeout)
				default:
					gone.Add(1)
					assert.ErrorIs(t, err, errGone)
				}
				cancel(nil)
			}
		})
	}
	var stop atomic.Bool
	for _, drive := range []func(){func() { w.Advance(w.Position() + 1) }, func() { p.AdvanceClock(tick) }} {
		driving.Go(func() {
			for !stop.Load() {
				drive()
				runtime.Gosched()
			}
		})
	}
	running.Wait()
	stop.Store(true)
	driving.Wait()
	require.EqualValues(t, goroutines*rounds, reached.Load()+expired.Load()+gone.Load())
	s := w.Stats()
	require.Equal(t, []int64{expired.Load(), gone.Load(), 0, 0}, []int64{s.Expired, s.Left, s.Cancelled, s.Refused})
	require.Positive(t, s.Expired)
	require.Positive(t, s.Left)
	require.Positive(t, s.Served)
	require.LessOrEqual(t, s.Served, reached.Load())
	left(t, w)
}

func TestErrSaysWhyItIsClosed(t *testing.T) {
	p := newPurgatory(t)
	for cause, want := range map[error]error{nil: ErrClosed, errGone: errGone} {
		w := New(p, "a", 0)
		require.NoError(t, w.Err())
		w.Close(cause)
		require.Equal(t, want, w.Err())
		w.Close(errNotLeader)
		require.Equal(t, want, w.Err())
	}
}

// Whoever leaves from the middle of a crowd, the one who has waited longest is known.
func TestTheOldestOfACrowdIsKnownWhoeverLeaves(t *testing.T) {
	for _, order := range [][]int{{1, 2, 0}, {2, 1, 0}, {1, 0, 2}, {0, 1, 2}, {2, 0, 1}, {0, 2, 1}} {
		synctest.Test(t, func(t *testing.T) {
			w := New(newPurgatory(t), "a", 0)
			var waits []*Wait[string]
			for range 4 {
				waits = append(waits, startWait(t, w, 5))
				time.Sleep(time.Second)
			}
			there := []bool{true, true, true, true}
			for _, i := range order {
				require.True(t, waits[i].Stop())
				there[i] = false
				oldest := slices.Index(there, true)
				require.Equal(t, time.Duration(4-oldest)*time.Second, w.Stats().Oldest, "%v", order)
			}
			require.True(t, waits[3].Stop())
			left(t, w)
		})
	}
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurgatory(t, purgatory.WithMaxPending(2))
		w := New(p, "a", 0)
		require.Equal(t, Stats{}, w.Stats())
		first := await(w, 5)
		time.Sleep(time.Second)
		second := await(w, 5)
		time.Sleep(time.Second)
		other := await(w, 6)
		time.Sleep(time.Second)
		require.Equal(t, Stats{Waiting: 3, Oldest: 3 * time.Second}, w.Stats())
		await(w, 7).returned(t, purgatory.ErrFull)
		first.leave(errGone)
		first.returned(t, errGone)
		require.Equal(t, Stats{Waiting: 2, Oldest: 2 * time.Second, Left: 1, Refused: 1}, w.Stats())
		third := await(w, 5)
		second.leave(nil)
		second.returned(t, context.Canceled)
		require.Equal(t, Stats{Waiting: 2, Oldest: time.Second, Left: 2, Refused: 1}, w.Stats(), "who waits longest is in a later wait")
		wait := startWait(t, w, 6)
		require.ErrorIs(t, w.Await(ended(), time.Second, 5), context.Canceled)
		w.Advance(5)
		third.returned(t, nil)
		require.NoError(t, w.Await(ended(), time.Second, 5), "is not counted")
		require.True(t, wait.Stop())
		require.Equal(t, Stats{Waiting: 1, Oldest: time.Second, Served: 1, Left: 4, Refused: 1}, w.Stats())
		w.Close(errGone)
		other.returned(t, errGone)
		require.Equal(t, Stats{Served: 1, Left: 4, Cancelled: 1, Refused: 1}, w.Stats())
		left(t, w)
	})
}
