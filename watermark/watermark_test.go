package watermark

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

var errGone = errors.New("gone")

// inBubble runs f with a watermark that stands at 0.
func inBubble(t *testing.T, f func(t *testing.T, p *strings, w *Watermark[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPurgatory(t)
		f(t, p, New(p, "a", 0))
	})
}

// waiter is a goroutine in Await.
type waiter struct {
	leave context.CancelCauseFunc
	err   chan error
}

// entered returns a wait for position 5 that the caller has entered and, if it is the first, started.
func entered(t *testing.T, w *Watermark[string]) *shared[string] {
	t.Helper()
	s, starts, err := enter(w, 5)
	require.NoError(t, err)
	if starts {
		require.NoError(t, s.start())
	}
	return s
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// asked is a context that calls a function when it is asked for its channel.
type asked struct {
	context.Context
	before func()
}

func (c asked) Done() <-chan struct{} { c.before(); return c.Context.Done() }

func await(w *Watermark[string], position int64) *waiter {
	ctx, cancel := context.WithCancelCause(context.Background())
	g := &waiter{cancel, make(chan error, 1)}
	go func() { g.err <- w.Await(ctx, purgatory.NoTimeout, position) }()
	synctest.Wait()
	return g
}

// returned checks that Await has returned, and what.
func (g *waiter) returned(t *testing.T, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-g.err:
		require.ErrorIs(t, err, want)
	default:
		t.Fatal("it waits")
	}
}

func (g *waiter) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, g.err)
}

func TestEqualWaitsShareAnOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		var at5, at7 []*waiter
		for range 1000 {
			at5 = append(at5, await(w, 5))
		}
		for range 3 {
			at7 = append(at7, await(w, 7))
		}
		require.Equal(t, 2, p.NumDelayed())
		w.Advance(4)
		at5[999].waits(t)
		tried := p.Stats().Checks
		w.Advance(6)
		require.Equal(t, tried+1, p.Stats().Checks, "one operation is tried")
		for _, g := range at5 {
			g.returned(t, nil)
		}
		for _, g := range at7 {
			g.waits(t)
		}
		w.Advance(7)
		for _, g := range at7 {
			g.returned(t, nil)
		}
		left(t, w)
	})
}

func TestAPositionThatWasReachedNeedsNoWait(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 5)
	ctx := ended()
	require.NoError(t, w.Await(ctx, purgatory.NoTimeout, 5))
	require.NoError(t, w.Await(ctx, purgatory.NoTimeout, math.MinInt64))
	require.NoError(t, p.Close())
	require.NoError(t, w.Await(ctx, purgatory.NoTimeout, 4))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = w.Await(ctx, purgatory.NoTimeout, 3) }))
	require.Zero(t, p.Stats().Accepted)
}

func TestAPositionOnlyRises(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		w.Advance(5)
		w.Advance(3)
		require.EqualValues(t, 5, w.Position())
		at6 := await(w, 6)
		other, err := p.StartWait(purgatory.NoTimeout, func() bool { return false }, "a") // every check tries it
		require.NoError(t, err)
		defer other.Stop()
		checks := p.Stats().Checks
		w.Advance(5)
		w.Advance(-1)
		require.Equal(t, checks, p.Stats().Checks, "there is nothing to check")
		at6.waits(t)
		w.Advance(6)
		at6.returned(t, nil)
	})
}

// A goroutine that leaves takes no other along; the last takes the operation out.
func TestEachLeavesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		first, second, third := await(w, 5), await(w, 5), await(w, 5)
		first.leave(errGone)
		first.returned(t, errGone)
		second.waits(t)
		fourth := await(w, 5)
		require.Equal(t, 1, p.NumDelayed(), "it has entered the wait, too")
		fourth.leave(errGone)
		fourth.returned(t, errGone)
		second.leave(errGone)
		second.returned(t, errGone)
		third.waits(t)
		require.Equal(t, 1, p.NumDelayed())
		third.leave(errGone)
		third.returned(t, errGone)
		left(t, w)

		again := await(w, 5) // in a wait of its own
		require.Equal(t, 1, p.NumDelayed())
		w.Advance(5)
		again.returned(t, nil)
		left(t, w)
	})
}

func TestWhatEndsTheOperationEndsAllItsWaits(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *strings)
		want error
	}{
		"cancelled, with a cause": {func(p *strings) { p.CancelForKey("a", errGone) }, errGone},
		"cancelled":               {func(p *strings) { p.CancelForKey("a", nil) }, purgatory.ErrCancelled},
		"closed":                  {func(p *strings) { _ = p.Close() }, purgatory.ErrClosed},
		"shut down":               {func(p *strings) { _ = p.Shutdown(ended()) }, purgatory.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
				first, second := await(w, 5), await(w, 5)
				c.end(p)
				first.returned(t, c.want)
				second.returned(t, c.want)
				left(t, w)
				if !errors.Is(c.want, purgatory.ErrClosed) {
					third := await(w, 5)
					third.waits(t)
					w.Advance(5)
					third.returned(t, nil)
				}
			})
		})
	}
}

// A goroutine that comes when a wait has ended, and before those in it have woken up, does not get
// their error.
func TestNobodyEntersAWaitThatHasEnded(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 0)
	s := entered(t, w)
	p.CancelForKey("a", errGone)
	other := entered(t, w)
	require.NotSame(t, s, other)
	require.ErrorIs(t, s.err(), errGone)
	require.Equal(t, operation.Pending, other.Outcome())

	third := entered(t, w)
	require.Same(t, other, third)
	leaves(w, s)
	require.Equal(t, 1, p.NumDelayed())
	leaves(w, other)
	require.Equal(t, 1, p.NumDelayed())
	leaves(w, third)
	left(t, w)
}

// A check tries a wait when CancelForKey comes, and ends it when that has returned.
func TestNobodyEntersAWaitThatIsToEnd(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 0)
	s := entered(t, w)
	m := machine.Of(s)
	require.True(t, m.Acquire())
	require.Zero(t, p.CancelForKey("a", errGone))
	other := entered(t, w)
	require.NotSame(t, s, other)
	end, _ := m.Release(true)
	require.True(t, end)
	m.End()
	require.ErrorIs(t, s.err(), errGone)
	require.Equal(t, operation.Pending, other.Outcome())
	leaves(w, s)
	leaves(w, other)
	left(t, w)
}

func TestAFullPurgatoryRefusesAWait(t *testing.T) {
	p := newPurgatory(t, purgatory.WithMaxPending(1))
	w := New(p, "a", 0)
	s := entered(t, w)
	require.ErrorIs(t, w.Await(context.Background(), purgatory.NoTimeout, 6), purgatory.ErrFull)
	require.Same(t, s, entered(t, w), "it is accepted already")
	leaves(w, s)
	leaves(w, s)
	left(t, w)
	require.NoError(t, p.Close())
	require.ErrorIs(t, w.Await(context.Background(), purgatory.NoTimeout, 6), purgatory.ErrClosed)
}

// A Shutdown waits for the waits, which others enter meanwhile.
func TestShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		first := await(w, 5)
		shut := make(chan error, 1)
		go func() { shut <- p.Shutdown(context.Background()) }()
		synctest.Wait()
		second := await(w, 5)
		await(w, 6).returned(t, purgatory.ErrClosed)
		first.waits(t)
		w.Advance(5)
		first.returned(t, nil)
		second.returned(t, nil)
		require.NoError(t, <-shut)
		left(t, w)
	})
}

// A wait has been asked to end, by a goroutine that has found it held. Those who come then share another one.
func TestThoseWhoComeWhileAWaitEndsShareTheNext(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 0)
	for range 2 { // the second time beside a wait for another position
		s := entered(t, w)
		m := machine.Of(s)
		require.True(t, m.Acquire())
		p.Cancel(s, nil)
		next := entered(t, w)
		require.NotSame(t, s, next)
		require.Same(t, next, entered(t, w))
		end, _ := m.Release(true)
		require.True(t, end)
		m.End()
		require.ErrorIs(t, s.err(), purgatory.ErrCancelled)
		require.Same(t, next, entered(t, w), "its end takes out itself only")
		for range 3 {
			require.True(t, leaves(w, next))
		}
		defer startWait(t, w, 9).Stop()
	}
}

// A position that is reached when the context has ended, or the purgatory has closed, is no error.
func TestAReachedPositionIsNoError(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 0)
	for position := int64(1); position <= 100; position++ { // a select of two channels tosses a coin
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, w.Await(asked{ctx, func() { w.Advance(position); cancel() }}, purgatory.NoTimeout, position))
	}
	closes := asked{context.Background(), func() { w.Advance(101); _ = p.Close() }}
	require.NoError(t, w.Await(closes, purgatory.NoTimeout, 101))
	require.ErrorIs(t, w.Await(context.Background(), purgatory.NoTimeout, 102), purgatory.ErrClosed)
	left(t, w)
}

func TestAPanicLeavesNothing(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 0)
	require.Panics(t, func() { _ = w.Await(asked{context.Background(), func() { panic("asked") }}, purgatory.NoTimeout, 5) })
	left(t, w)

	q, err := purgatory.New[any]("any")
	require.NoError(t, err)
	defer q.Close()
	unhashable := New[any](q, []int{1}, 0)
	joined, _, err := enter(unhashable, 5)
	require.NoError(t, err)
	require.Panics(t, func() { _ = joined.start() })
	require.ErrorIs(t, joined.err(), purgatory.ErrCancelled)
	require.Panics(t, func() { _ = unhashable.Await(context.Background(), purgatory.NoTimeout, 5) })
	require.Panics(t, func() { unhashable.Advance(1) })
	left(t, unhashable)
}

func TestExtremes(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, _ *Watermark[string]) {
		w := New(p, "b", math.MinInt64)
		lowest, negative, highest := await(w, math.MinInt64+1), await(w, -1), await(w, math.MaxInt64)
		w.Advance(math.MinInt64)
		lowest.waits(t)
		w.Advance(math.MinInt64 + 1)
		lowest.returned(t, nil)
		negative.waits(t)
		w.Advance(math.MaxInt64 - 1)
		negative.returned(t, nil)
		highest.waits(t)
		w.Advance(math.MaxInt64)
		highest.returned(t, nil)
		left(t, w)
	})
}

// Watermarks of one purgatory, and operations under their keys, do not disturb each other.
func TestTwoWatermarks(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, a *Watermark[string]) {
		b := New(p, "b", 0)
		at, bt := await(a, 5), await(b, 5)
		ended, err := p.StartWait(purgatory.NoTimeout, func() bool { return a.Position() >= 3 }, "a")
		require.NoError(t, err)
		a.Advance(3)
		<-ended.Done()
		a.Advance(5)
		at.returned(t, nil)
		bt.waits(t)
		b.Advance(9)
		bt.returned(t, nil)
		left(t, a)
	})
}

// Two watermarks under one key only try each other's waits in vain.
func TestTwoWatermarksUnderOneKey(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, a *Watermark[string]) {
		b := New(p, "a", 3)
		at, bt := await(a, 5), await(b, 5)
		require.Equal(t, 2, p.NumDelayed())
		a.Advance(9)
		at.returned(t, nil)
		bt.waits(t)
		b.Advance(5)
		bt.returned(t, nil)
		left(t, a)
		left(t, b)
	})
}

// Whatever meets: each Await returns nil once its position is reached, or else the cause of its
// context, and nothing is left.
func TestAwaitBesideEverything(t *testing.T) {
	const goroutines, rounds = 16, 300
	p := newPurgatory(t)
	w := New(p, "a", 0)
	var running sync.WaitGroup
	var reached, gone atomic.Int64
	for g := range goroutines {
		random := rand.New(rand.NewPCG(1, uint64(g)))
		running.Go(func() {
			for range rounds {
				ctx, cancel := context.WithCancelCause(context.Background())
				position := w.Position() + 1 + random.Int64N(3)
				switch random.IntN(8) {
				case 0:
					position = 1 << 60 // nobody gets there
					fallthrough
				case 1:
					running.Go(func() { cancel(errGone) })
				}
				if err := w.Await(ctx, purgatory.NoTimeout, position); err == nil {
					reached.Add(1)
					assert.GreaterOrEqual(t, w.Position(), position)
				} else {
					gone.Add(1)
					assert.ErrorIs(t, err, errGone)
				}
				cancel(nil)
			}
		})
	}
	stop, advanced := make(chan struct{}), make(chan struct{})
	for range 2 {
		go func() {
			defer func() { advanced <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
					w.Advance(w.Position() + 1)
				}
			}
		}()
	}
	running.Wait()
	close(stop)
	<-advanced
	<-advanced
	require.EqualValues(t, goroutines*rounds, reached.Load()+gone.Load())
	require.Positive(t, reached.Load())
	require.Positive(t, gone.Load())
	left(t, w)
}
