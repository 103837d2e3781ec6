package purgatory_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// waitFor starts an Await on another goroutine, and returns what waits for its result.
func waitFor(ctx context.Context, p *stringPurgatory, timeout time.Duration, ready func() bool, keys ...string) (result func() error) {
	var err error
	wait := inBackground(func() { err = p.Await(ctx, timeout, ready, keys...) })
	return func() error {
		wait()
		return err
	}
}

func TestAwaitReturnsHowItEnded(t *testing.T) {
	never := func() bool { return false }
	tests := map[string]struct {
		end  func(p *stringPurgatory, met *atomic.Bool, cancel context.CancelCauseFunc)
		want error
	}{
		"ready, checked": {func(p *stringPurgatory, met *atomic.Bool, _ context.CancelCauseFunc) {
			met.Store(true)
			p.CheckAndComplete("b")
		}, nil},
		"ready, signalled": {func(p *stringPurgatory, met *atomic.Bool, _ context.CancelCauseFunc) { met.Store(true); p.Signal("a") }, nil},
		"timeout":          {func(*stringPurgatory, *atomic.Bool, context.CancelCauseFunc) { time.Sleep(2 * time.Minute) }, purgatory.ErrExpired},
		"context":          {func(_ *stringPurgatory, _ *atomic.Bool, cancel context.CancelCauseFunc) { cancel(errGone) }, errGone},
		"plain context":    {func(_ *stringPurgatory, _ *atomic.Bool, cancel context.CancelCauseFunc) { cancel(nil) }, context.Canceled},
		"key cancelled":    {func(p *stringPurgatory, _ *atomic.Bool, _ context.CancelCauseFunc) { p.CancelForKey("a", errGone) }, errGone},
		"without a cause":  {func(p *stringPurgatory, _ *atomic.Bool, _ context.CancelCauseFunc) { p.CancelForKey("a", nil) }, purgatory.ErrCancelled},
		"closed":           {func(p *stringPurgatory, _ *atomic.Bool, _ context.CancelCauseFunc) { _ = p.Close() }, purgatory.ErrClosed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, err := purgatory.New[string]("test")
				require.NoError(t, err)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var met atomic.Bool
				result := waitFor(ctx, p, time.Minute, met.Load, "a", "b")
				bystander := waitFor(t.Context(), p, 10*time.Minute, never, "c")
				synctest.Wait()
				assert.Equal(t, []int{2, 3, 3}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
				test.end(p, &met, cancel)
				err = result()
				if test.want == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, test.want)
				}
				if name != "closed" {
					assert.Equal(t, []int{1, 1, 1}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)}, "nothing left behind")
					require.NoError(t, p.Close())
				}
				require.ErrorIs(t, bystander(), purgatory.ErrClosed)
				require.NoError(t, p.Shutdown(t.Context()))
			})
		})
	}
}

func TestAwaitReturnsAtOnceIfItNeedNotWait(t *testing.T) {
	p := onManualClock[string](t) // whose time stands still
	yes, no := func() bool { return true }, func() bool { return false }
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.NoError(t, p.Await(t.Context(), hour, yes, "a"))
	require.NoError(t, p.Await(t.Context(), 0, yes, "a"))
	require.ErrorIs(t, p.Await(over, hour, yes, "a"), errGone, "nothing is for who has left")
	require.ErrorIs(t, p.Await(over, hour, no, "a"), errGone)
	tries := 0
	require.ErrorIs(t, p.Await(t.Context(), 0, func() bool { tries++; return false }, "a"), purgatory.ErrExpired)
	require.ErrorIs(t, p.Await(t.Context(), -1, func() bool { tries++; return false }, "a"), purgatory.ErrExpired)
	assert.Equal(t, 2, tries, "once each")
	require.ErrorIs(t, p.Await(t.Context(), hour, nil, "a"), purgatory.ErrNilOperation)
	require.ErrorIs(t, p.Await(t.Context(), purgatory.NoTimeout, yes), purgatory.ErrNoKeys)
	require.ErrorIs(t, p.AwaitAt(t.Context(), purgatory.NoTimeout, yes), purgatory.ErrNoKeys)
	_, err := purgatory.AwaitValue[int](t.Context(), p, hour, nil, "a")
	require.ErrorIs(t, err, purgatory.ErrNilOperation)
	empty(t, p)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Await(t.Context(), hour, yes, "a"), purgatory.ErrClosed)
}

// A wait that need not begin counts as satisfied, whatever the number of its keys.
func TestAWaitThatNeedNotBeginIsCounted(t *testing.T) {
	for _, keys := range [][]string{{"a"}, {"a", "b"}} {
		p := onManualClock[string](t)
		require.NoError(t, p.Await(t.Context(), hour, func() bool { return true }, keys...))
		assert.EqualValues(t, 1, conserved(t, p).Satisfied, keys)
	}
}

func TestAwaitAtReturnsAtOnceIfItNeedNotWait(t *testing.T) {
	p := onManualClock[string](t) // whose time stands still
	at := purgatory.KeyPosition[string]{Key: "a", Position: 3}
	require.NoError(t, p.AwaitAt(t.Context(), hour, func() bool { return true }, at))
	require.ErrorIs(t, p.AwaitAt(t.Context(), 0, func() bool { return false }, at), purgatory.ErrExpired)
	empty(t, p)
}

func TestAwaitInAFullPurgatoryIsRefused(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithMaxPending(1))
	submitted(t, p, "a")
	require.ErrorIs(t, p.Await(t.Context(), hour, func() bool { return false }, "a"), purgatory.ErrFull)
}

func TestAwaitAtWaitsForAPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		var end atomic.Int64
		var tries atomic.Int32
		var got error
		wait := inBackground(func() {
			got = p.AwaitAt(t.Context(), hour, func() bool { tries.Add(1); return end.Load() >= 100 }, purgatory.KeyPosition[string]{Key: "log", Position: 100})
		})
		synctest.Wait()
		before := tries.Load()
		for end.Store(1); end.Load() < 100; end.Add(1) {
			assert.Zero(t, p.CheckAndCompleteUpTo("log", end.Load()))
		}
		assert.Equal(t, before, tries.Load(), "not tried below its position")
		assert.Equal(t, 1, p.CheckAndCompleteUpTo("log", 100))
		wait()
		require.NoError(t, got)
		assert.Equal(t, before+1, tries.Load())
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestAwaitValueReturnsTheValueThatWasReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		var value atomic.Int64
		ready := func() (int64, bool) { v := value.Load(); return v, v > 2 }
		var got int64
		var gotErr error
		wait := inBackground(func() { got, gotErr = purgatory.AwaitValue(t.Context(), p, hour, ready, "a") })
		synctest.Wait()
		for range 3 {
			value.Add(1)
			p.CheckAndComplete("a")
		}
		wait()
		require.NoError(t, gotErr)
		assert.EqualValues(t, 3, got)
		value.Store(1)
		got, gotErr = purgatory.AwaitValue(t.Context(), p, time.Second, ready, "a")
		require.ErrorIs(t, gotErr, purgatory.ErrExpired)
		assert.Zero(t, got, "not what was seen with a no")
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestAwaitReturnsNilIfARunningReadyReturnsTrue(t *testing.T) {
	for _, answer := range []bool{true, false} {
		p := onManualClock[string](t)
		ctx, cancel := context.WithCancelCause(t.Context())
		g := newGate()
		var armed atomic.Bool
		result := waitFor(ctx, p, hour, func() bool {
			if armed.Swap(false) {
				g.pass()
				return answer
			}
			return false
		}, "a")
		eventually(t, func() bool { return p.NumDelayed() == 1 }, "it waits")
		armed.Store(true)
		for armed.Load() { // until it has let go of its registration
			select {
			case <-g.entered:
			default:
				go p.CheckAndComplete("a")
				runtime.Gosched()
			}
		}
		<-g.entered
		cancel(errGone)
		returned := make(chan error, 1)
		go func() { returned <- result() }()
		for range 1000 {
			runtime.Gosched()
		}
		assert.Empty(t, returned, "ready has not answered yet")
		close(g.leave)
		if err := <-returned; answer {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errGone)
		}
		empty(t, p)
	}
}

func TestAwaitCopiesItsKeysBeforeItTries(t *testing.T) {
	p := open[string](t)
	var met atomic.Bool
	keys := []string{"a"}
	ready := func() bool { keys[0] = "overwritten"; return met.Load() }
	done := make(chan error, 1)
	go func() { done <- p.Await(t.Context(), hour, ready, keys...) }()
	eventually(t, func() bool { return p.NumDelayed() == 1 }, "it waits")
	met.Store(true)
	p.CheckAndComplete("a")
	soon(t, "it ends", func() { assert.NoError(t, <-done) })
}

// A condition that ends the goroutine of its Await, as a test's FailNow does, leaves no wait
// behind, whichever call of ready it is.
func TestAnAwaitWhoseGoroutineEndsLeavesNothing(t *testing.T) {
	for nth := 1; nth <= 2; nth++ {
		synctest.Test(t, func(t *testing.T) {
			p := open[string](t, purgatory.WithMaxPending(1))
			calls := 0
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = p.Await(t.Context(), hour, func() bool {
					if calls++; calls == nth {
						runtime.Goexit()
					}
					return false
				}, "a")
			}()
			<-ended
			assert.Equal(t, nth, calls)
			synctest.Wait()
			assert.Zero(t, p.NumDelayed())
			p.CheckAndComplete("a")
			assert.Equal(t, nth, calls, "nobody waits any more")
		})
	}
}

// What ready has taken is its caller's, whatever ends the wait at the same time: the purgatory
// closes, or the context ends, before or after the wait is registered.
func TestAwaitValueDropsNoValueThatReadyHasTaken(t *testing.T) {
	for at := 1; at <= 3; at++ {
		for name, end := range map[string]func(p *stringPurgatory, stop func()){
			"close":  func(p *stringPurgatory, _ func()) { _ = p.Close() },
			"ctx":    func(_ *stringPurgatory, stop func()) { stop() },
			"cancel": func(p *stringPurgatory, _ func()) { p.CancelForKey("a", errGone) },
			"expire": func(p *stringPurgatory, _ func()) { p.AdvanceClock(2 * hour) },
		} {
			p := onManualClock[string](t)
			ctx, stop := context.WithCancel(t.Context())
			tries := 0
			var returned atomic.Bool
			checked := make(chan struct{})
			go func() {
				defer close(checked)
				// Until AwaitValue returns: the third try may also be made by its registration, on
				// behalf of a check that met the second.
				for at == 3 && !returned.Load() {
					p.CheckAndComplete("a")
					runtime.Gosched()
				}
			}()
			value, err := purgatory.AwaitValue(ctx, p, hour, func() (int, bool) {
				if tries++; tries != at {
					return 0, false
				}
				end(p, stop)
				return 7, true
			}, "a")
			returned.Store(true)
			<-checked
			stop()
			require.NoError(t, err, "%s in try %d", name, at)
			require.Equal(t, 7, value)
		}
	}
}

// Nobody checks the key: the change comes after Await's first call of ready, before it waits.
func TestAwaitSeesAChangeBeforeItWaits(t *testing.T) {
	p := open[string](t)
	calls := 0
	soon(t, "it returns", func() {
		assert.NoError(t, p.Await(t.Context(), hour, func() bool { calls++; return calls == 2 }, "a"))
	})
	assert.Equal(t, 2, calls)
}

func isDone(w *purgatory.Wait[string]) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

func TestAWaitEndsAsAnAwaitDoes(t *testing.T) {
	var met atomic.Bool
	for name, c := range map[string]struct {
		end  func(p *stringPurgatory, w *purgatory.Wait[string])
		want error
	}{
		"check":  {func(p *stringPurgatory, _ *purgatory.Wait[string]) { met.Store(true); p.CheckAndComplete("a") }, nil},
		"expire": {func(p *stringPurgatory, _ *purgatory.Wait[string]) { p.AdvanceClock(2 * hour) }, purgatory.ErrExpired},
		"cancel": {func(p *stringPurgatory, _ *purgatory.Wait[string]) { p.CancelForKey("a", errGone) }, errGone},
		"close":  {func(p *stringPurgatory, _ *purgatory.Wait[string]) { _ = p.Close() }, purgatory.ErrClosed},
		"stop":   {func(_ *stringPurgatory, w *purgatory.Wait[string]) { assert.True(t, w.Stop()) }, purgatory.ErrCancelled},
	} {
		met.Store(false)
		p := onManualClock[string](t)
		w, err := p.StartWait(hour, met.Load, "a", "b")
		require.NoError(t, err)
		assert.False(t, isDone(w))
		require.ErrorIs(t, w.Err(), purgatory.ErrPending, name)
		c.end(p, w)
		require.True(t, isDone(w), name)
		require.ErrorIs(t, w.Err(), c.want, name)
		assert.False(t, w.Stop(), name)
		empty(t, p)
	}
	p := onManualClock[string](t)
	_, err := p.StartWait(hour, nil, "a")
	require.ErrorIs(t, err, purgatory.ErrNilOperation)
	_, err = p.StartWait(purgatory.NoTimeout, met.Load)
	require.ErrorIs(t, err, purgatory.ErrNoKeys)
}

// Who asks beside the end of a wait gets its error, or that it is pending, but no yes.
func TestTheErrorOfAWaitBesideItsEnd(t *testing.T) {
	p := open[string](t)
	started := make(chan *purgatory.Wait[string])
	defer close(started)
	go func() {
		for w := range started {
			w.Stop()
		}
	}()
	for range 300 {
		w, err := p.StartWait(hour, func() bool { return false }, "a")
		require.NoError(t, err)
		started <- w
		for err = w.Err(); errors.Is(err, purgatory.ErrPending); err = w.Err() {
		}
		require.ErrorIs(t, err, purgatory.ErrCancelled)
	}
}

// A wait that was stopped leaves nothing behind, and costs two allocations and no goroutine.
func TestAStoppedWaitLeavesNothing(t *testing.T) {
	p := onManualClock[string](t)
	never := func() bool { return false }
	goroutines := runtime.NumGoroutine()
	stopped := func() weak.Pointer[purgatory.Wait[string]] {
		w, err := p.StartWait(hour, never, "a")
		require.NoError(t, err)
		// Goroutines of the runtime come and go, and so do those of tests that have ended.
		assert.True(t, inTime(func() bool { return runtime.NumGoroutine() <= goroutines }), "a goroutine more")
		assert.True(t, w.Stop())
		return weak.Make(w)
	}()
	empty(t, p)
	assert.Equal(t, []int64{0, 1}, []int64{p.Stats().PassedOver, p.Stats().Cancelled})
	runtime.GC()
	assert.Nil(t, stopped.Value())
	if !purgatory.RaceDetector { // it makes a sync.Pool drop items
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			w, _ := p.StartWait(hour, never, "a")
			w.Stop()
		}), 2.0)
	}
	runtime.KeepAlive(p)
}

// What ready has taken when the wait starts is the caller's, even if the purgatory has closed
// meanwhile.
func TestAYesOfAWaitThatStartsIsNotDropped(t *testing.T) {
	p := onManualClock[string](t)
	taken := 0
	w, err := p.StartWait(hour, func() bool {
		taken++
		assert.NoError(t, p.Close())
		return true
	}, "a")
	require.NoError(t, err)
	assert.True(t, isDone(w))
	require.NoError(t, w.Err())
	assert.False(t, w.Stop(), "it has ended")
	assert.Equal(t, 1, taken)
	assert.Zero(t, p.NumDelayed())

	_, err = p.StartWait(hour, func() bool { taken++; return true }, "a")
	require.ErrorIs(t, err, purgatory.ErrClosed, "it is not called on a closed purgatory")
	assert.Equal(t, 1, taken)
}

// strangeContext is a context whose Done panics.
type strangeContext struct{ context.Context }

func (strangeContext) Done() <-chan struct{} { panic("of the context's") }

// Whoever leaves while a wait is registered leaves nothing behind, without a timeout that would end it.
func TestAWaitThatNobodyHoldsEnds(t *testing.T) {
	never := func() bool { return false }
	for name, wait := range map[string]func(p *stringPurgatory){
		"Await, a Goexit in ready":     func(p *stringPurgatory) { _ = p.Await(context.Background(), purgatory.NoTimeout, exitsAt(2), "a") },
		"StartWait, a Goexit in ready": func(p *stringPurgatory) { _, _ = p.StartWait(purgatory.NoTimeout, exitsAt(2), "a") },
		"StartWait, at first":          func(p *stringPurgatory) { _, _ = p.StartWait(purgatory.NoTimeout, exitsAt(1), "a") },
		"Await, a context that panics": func(p *stringPurgatory) {
			defer func() { _ = recover() }()
			_ = p.Await(strangeContext{context.Background()}, purgatory.NoTimeout, never, "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			inBackground(func() { wait(p) })()
			eventually(t, func() bool { return p.NumDelayed() == 0 && p.Watched() == 0 }, "it ends")
		})
	}
}

// exitsAt returns a condition that ends its goroutine when it is called for the nth time.
func exitsAt(n int32) func() bool {
	var calls atomic.Int32
	return func() bool {
		if calls.Add(1) == n {
			runtime.Goexit()
		}
		return false
	}
}

// lateContext ends when gone is closed, but says why only when told is closed: until then a wait that leaves has not left.
type lateContext struct {
	context.Context
	gone, told chan struct{}
}

func (c *lateContext) Done() <-chan struct{} { return c.gone }
func (c *lateContext) Err() error            { <-c.told; return errGone }

// A check that comes between the end of the context and the return of Await does not call the condition.
func TestNothingIsForAClientThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		ctx := &lateContext{t.Context(), make(chan struct{}), make(chan struct{})}
		items := 0
		taken := func() bool {
			if items == 0 {
				return false
			}
			items--
			return true
		}
		result := waitFor(ctx, p, hour, taken, "a")
		living := waitFor(t.Context(), p, hour, taken, "a")
		synctest.Wait()
		close(ctx.gone)
		synctest.Wait()
		items = 1
		assert.Equal(t, 1, p.CheckAndComplete("a"), "the living one")
		require.NoError(t, living())
		close(ctx.told)
		require.ErrorIs(t, result(), errGone)
		assert.Equal(t, []int64{1, 1, 1}, []int64{p.Stats().PassedOver, p.Stats().GaveUp, p.Stats().Cancelled})
		empty(t, p)
	})
}

// What an adapter in another program relies on, and so need not do itself.

func TestMustPanicsWithTheErrorOfNewAndWithNothingElse(t *testing.T) {
	p := purgatory.Must(purgatory.New[struct{}]("an adapter"))
	require.NoError(t, p.Close())
	assert.Equal(t, "an adapter", p.Name())
	_, err := purgatory.New[struct{}]("")
	assert.PanicsWithError(t, err.Error(), func() { purgatory.Must(purgatory.New[struct{}]("")) })
}

// With a limit of 0 nobody waits: who is met at once is served, and everybody else is refused, at once.
func TestALimitOfZeroRefusesWhoeverWouldWait(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithMaxPending(0))
	met := false
	ready := func() bool { return met }
	for range 2 {
		_, err := p.StartWait(hour, ready, "a")
		require.ErrorIs(t, err, purgatory.ErrFull)
		require.ErrorIs(t, p.Await(t.Context(), purgatory.NoTimeout, ready, "a"), purgatory.ErrFull)
		_, err = p.TryCompleteElseWatch(&op{try: ready}, hour, "a", "b")
		require.ErrorIs(t, err, purgatory.ErrFull)
		require.ErrorIs(t, p.Await(t.Context(), 0, ready, "a"), purgatory.ErrExpired, "who would not wait in any case")
		require.Zero(t, p.NumDelayed())
		met = true
		require.NoError(t, p.Await(t.Context(), purgatory.NoTimeout, ready, "a"))
		completed, err := p.TryCompleteElseWatch(&op{try: ready}, hour, "a", "b")
		require.NoError(t, err)
		require.True(t, completed)
		met = false
	}
	assert.EqualValues(t, 6, p.Stats().RejectedFull)
	assert.Zero(t, p.Stats().MaxPending)
}

// A wait that its context ends returns ctx.Err() itself, or the cause that the context was given.
func TestAWaitReturnsTheErrorOfItsContextUnchanged(t *testing.T) {
	never := func() bool { return false }
	for name, c := range map[string]func(context.Context) (context.Context, func()){
		"cancelled": func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) },
		"its deadline has passed": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, func() { time.Sleep(2 * time.Second); cancel() }
		},
		"with a cause": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errGone) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := purgatory.Must(purgatory.New[string](t.Name()))
				defer p.Close()
				ctx, end := c(t.Context())
				result := waitFor(ctx, p, hour, never, "a")
				synctest.Wait()
				end()
				want := ctx.Err()
				if name == "with a cause" {
					want = errGone
				}
				assert.Equal(t, want, result(), "the very error, and not one that wraps it")
				assert.Zero(t, p.Stats().PassedOver, "no check has come to them")
				assert.Equal(t, want, p.Await(ctx, hour, never, "a"))
				assert.EqualValues(t, 1, p.Stats().PassedOver)
			})
		})
	}
}

// The channel of a Wait that is met at once is closed when StartWait returns.
func TestStartWaitSaysWhetherItWaits(t *testing.T) {
	p := onManualClock[string](t)
	for _, met := range []bool{true, false, true} {
		w, err := p.StartWait(hour, func() bool { return met }, "a")
		require.NoError(t, err)
		assert.Equal(t, met, isDone(w))
		w.Stop()
	}
}
