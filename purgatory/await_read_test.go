package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

var errRead = errors.New("cannot be read")

// result is what AwaitRead has returned.
type result struct {
	value int64
	err   error
}

// startRead calls AwaitRead on another goroutine.
func startRead(ctx context.Context, p *purgatory.DelayedOperationPurgatory[string], timeout time.Duration, read func(context.Context) (int64, bool, error), keys ...string) <-chan result {
	c := make(chan result, 1)
	go func() {
		value, err := purgatory.AwaitRead(ctx, p, timeout, read, keys...)
		c <- result{value, err}
	}()
	return c
}

// nothingLeft asserts that nobody waits, and shuts p down.
func nothingLeft(t *testing.T, p *purgatory.DelayedOperationPurgatory[string]) {
	t.Helper()
	assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), p.NumKeys()}, "left behind")
	require.NoError(t, p.Shutdown(context.Background()))
	s := p.Stats()
	assert.Equal(t, s.Accepted, s.Satisfied+s.Expired+s.Cancelled+s.Closed+s.Forced)
}

func TestAwaitReadReturnsHowItEnded(t *testing.T) {
	tests := map[string]struct {
		do   func(p *purgatory.DelayedOperationPurgatory[string], state *atomic.Int64, cancel context.CancelCauseFunc)
		want result
	}{
		"checked": {func(p *purgatory.DelayedOperationPurgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(10)
			p.CheckAndComplete("b") // it only wakes the reader; if that is fast, the check ends the wait for it
		}, result{10, nil}},
		"signalled": {func(p *purgatory.DelayedOperationPurgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(11)
			p.Signal("a")
		}, result{11, nil}},
		"everything": {func(p *purgatory.DelayedOperationPurgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(12)
			p.SignalAll()
		}, result{12, nil}},
		"error of read": {func(p *purgatory.DelayedOperationPurgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(-1)
			p.Signal("a")
		}, result{-1, errRead}},
		"timeout with what it has": {func(p *purgatory.DelayedOperationPurgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(3)
			p.Signal("a")
			time.Sleep(2 * time.Minute)
		}, result{3, purgatory.ErrExpired}},
		"context": {func(_ *purgatory.DelayedOperationPurgatory[string], _ *atomic.Int64, cancel context.CancelCauseFunc) {
			cancel(errGone)
		}, result{1, errGone}},
		"key cancelled": {func(p *purgatory.DelayedOperationPurgatory[string], _ *atomic.Int64, _ context.CancelCauseFunc) {
			p.CancelForKey("b", errGone)
		}, result{1, errGone}},
		"cancelled without a cause": {func(p *purgatory.DelayedOperationPurgatory[string], _ *atomic.Int64, _ context.CancelCauseFunc) {
			p.CancelForKey("b", nil)
		}, result{1, purgatory.ErrCancelled}},
		"closed": {func(p *purgatory.DelayedOperationPurgatory[string], _ *atomic.Int64, _ context.CancelCauseFunc) {
			_ = p.Close()
		}, result{1, purgatory.ErrClosed}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open[string](t)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var state atomic.Int64
				state.Store(1)
				got := startRead(ctx, p, time.Minute, func(context.Context) (int64, bool, error) {
					if v := state.Load(); v >= 0 {
						return v, v >= 10, nil
					}
					return -1, false, errRead
				}, "a", "b")
				synctest.Wait()
				assert.Equal(t, []int{1, 2, 2}, []int{p.NumDelayed(), p.Watched(), p.NumKeys()})
				test.do(p, &state, cancel)
				r := <-got
				assert.Equal(t, test.want.value, r.value)
				if test.want.err == nil {
					assert.NoError(t, r.err)
				} else {
					assert.ErrorIs(t, r.err, test.want.err)
				}
				nothingLeft(t, p)
			})
		})
	}
}

func TestAwaitReadReadsOnceIfItNeedNotWait(t *testing.T) {
	p := open[string](t)
	reads := 0
	no := func(context.Context) (int64, bool, error) { reads++; return 7, false, nil }
	yes := func(context.Context) (int64, bool, error) { reads++; return 8, true, nil }
	fails := func(ctx context.Context) (int64, bool, error) { reads++; return 0, false, context.Cause(ctx) }
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	for _, test := range []struct {
		ctx     context.Context
		timeout time.Duration
		read    func(context.Context) (int64, bool, error)
		want    result
		reads   int
	}{
		{t.Context(), 0, no, result{7, purgatory.ErrExpired}, 1},
		{t.Context(), -1, yes, result{8, nil}, 1},
		{over, 0, fails, result{0, errGone}, 0},
		{over, 0, no, result{0, errGone}, 0},
		{t.Context(), time.Hour, yes, result{8, nil}, 1},
		{over, time.Hour, yes, result{0, errGone}, 0},
		{over, time.Hour, no, result{0, errGone}, 0},
		{over, time.Hour, fails, result{0, errGone}, 0},
		{t.Context(), 0, func(context.Context) (int64, bool, error) { reads++; return 9, true, errGone }, result{9, errGone}, 1},
	} {
		reads = 0
		v, err := purgatory.AwaitRead(test.ctx, p, test.timeout, test.read, "a")
		assert.Equal(t, test.want.value, v)
		assert.ErrorIs(t, err, test.want.err)
		assert.Equal(t, test.reads, reads)
	}
	s := p.Stats()
	assert.Equal(t, []int64{4, 2, 1, 1, 5}, []int64{s.Accepted, s.Satisfied, s.Expired, s.Cancelled, s.PassedOver}, "each wait counts once")
	var none func(context.Context) (int64, bool, error)
	_, err := purgatory.AwaitRead(t.Context(), p, time.Hour, none, "a")
	assert.ErrorIs(t, err, purgatory.ErrNilOperation)
	for _, timeout := range []time.Duration{0, purgatory.NoTimeout} {
		_, err = purgatory.AwaitRead(t.Context(), p, timeout, yes)
		assert.ErrorIs(t, err, purgatory.ErrNoKeys)
	}
	nothingLeft(t, p)
	for _, timeout := range []time.Duration{0, time.Hour} {
		_, err = purgatory.AwaitRead(t.Context(), p, timeout, yes, "a")
		assert.ErrorIs(t, err, purgatory.ErrClosed)
	}
}

// With a timeout of zero or less AwaitRead needs no timer and no check: on a clock that stands
// still it reads once, with the caller's context, and returns.
func TestAwaitReadWithoutTimeReadsWithTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := onManualClock[string](t)
		ctx, cancel := context.WithTimeout(t.Context(), hour) // so that the test ends in any case
		defer cancel()
		read := func(with context.Context) (int, bool, error) {
			assert.Equal(t, ctx, with)
			return 7, false, nil
		}
		for _, timeout := range []time.Duration{0, -1} {
			v, err := purgatory.AwaitRead(ctx, p, timeout, read, "a")
			assert.Equal(t, 7, v)
			require.ErrorIs(t, err, purgatory.ErrExpired)
			v, err = purgatory.AwaitReadAt(ctx, p, timeout, read, purgatory.KeyPosition[string]{Key: "a", Position: 3})
			assert.Equal(t, 7, v)
			require.ErrorIs(t, err, purgatory.ErrExpired)
		}
		assert.NoError(t, ctx.Err(), "it has waited")
	})
}

func TestSignalsDuringAReadCauseOneMoreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		var reads atomic.Int64
		inside, leave := make(chan struct{}), make(chan struct{})
		got := startRead(t.Context(), p, time.Hour, func(context.Context) (int64, bool, error) {
			n := reads.Add(1)
			inside <- struct{}{}
			<-leave
			return n, n == 3, nil
		}, "a")
		<-inside
		for range 5 {
			p.Signal("a")
			p.CheckAndComplete("a")
			synctest.Wait()
		}
		leave <- struct{}{}
		<-inside // the second read, for all ten of them
		leave <- struct{}{}
		synctest.Wait()
		assert.EqualValues(t, 2, reads.Load(), "and it sleeps")
		p.Signal("a")
		<-inside
		leave <- struct{}{}
		assert.Equal(t, result{3, nil}, <-got)
		nothingLeft(t, p)
	})
}

func TestTheContextOfAReadEndsWithTheWait(t *testing.T) {
	ends := map[string]struct {
		end  func(p *purgatory.DelayedOperationPurgatory[string], cancel context.CancelCauseFunc)
		want error
	}{
		"timeout": {func(*purgatory.DelayedOperationPurgatory[string], context.CancelCauseFunc) {}, purgatory.ErrExpired},
		"context": {func(_ *purgatory.DelayedOperationPurgatory[string], cancel context.CancelCauseFunc) { cancel(errGone) }, errGone},
		"cancelled": {func(p *purgatory.DelayedOperationPurgatory[string], _ context.CancelCauseFunc) {
			p.CancelForKey("a", errGone)
		}, errGone},
		"closed": {func(p *purgatory.DelayedOperationPurgatory[string], _ context.CancelCauseFunc) { _ = p.Close() }, purgatory.ErrClosed},
	}
	answers := map[string]struct {
		met  bool
		err  error
		want int64
	}{"yes": {true, nil, 2}, "no": {false, nil, 2}, "error": {false, errRead, 1}}
	for name, how := range ends {
		for said, answer := range answers {
			t.Run(name+", read says "+said, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := open[string](t)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					reads := int64(0)
					got := startRead(ctx, p, time.Minute, func(ctx context.Context) (int64, bool, error) {
						if reads++; reads == 1 {
							return reads, false, nil
						}
						<-ctx.Done() // as a driver does
						assert.ErrorIs(t, context.Cause(ctx), how.want)
						return reads, answer.met, answer.err
					}, "a")
					synctest.Wait()
					p.Signal("a")
					synctest.Wait()
					how.end(p, cancel)
					r := <-got
					assert.Equal(t, answer.want, r.value)
					if answer.met {
						assert.NoError(t, r.err)
					} else {
						assert.ErrorIs(t, r.err, how.want)
					}
					nothingLeft(t, p)
				})
			})
		}
	}
}

func TestAChangeSignalledBeforeTheTimeoutIsRead(t *testing.T) {
	// The goroutine gets to neither before the timeout has passed: it is in a read that
	// does not look at its context.
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		var state atomic.Int64
		reads := 0
		got := startRead(t.Context(), p, time.Minute, func(ctx context.Context) (int64, bool, error) {
			v := state.Load()
			if reads++; reads == 1 {
				time.Sleep(2 * time.Minute)
			} else {
				assert.NoError(t, ctx.Err())
			}
			return v, v > 0, nil
		}, "a")
		time.Sleep(time.Second)
		state.Store(5)
		p.Signal("a")
		assert.Equal(t, result{5, nil}, <-got)
		nothingLeft(t, p)
	})
}

func TestAwaitReadAtIsWokenByItsPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		var end, reads atomic.Int64
		done := make(chan error, 1)
		go func() {
			_, err := purgatory.AwaitReadAt(t.Context(), p, time.Hour, func(context.Context) (int64, bool, error) {
				reads.Add(1)
				return end.Load(), end.Load() >= 100, nil
			}, purgatory.KeyPosition[string]{Key: "log", Position: 100})
			done <- err
		}()
		synctest.Wait()
		for end.Store(1); end.Load() < 100; end.Add(1) {
			p.SignalUpTo("log", end.Load())
			synctest.Wait()
		}
		assert.EqualValues(t, 1, reads.Load(), "not below its position")
		p.SignalUpTo("log", 100)
		require.NoError(t, <-done)
		assert.EqualValues(t, 2, reads.Load())
		nothingLeft(t, p)
	})
}

func TestAPanicInReadReachesTheCaller(t *testing.T) {
	p := open[string](t)
	assert.PanicsWithValue(t, "of the user's", func() {
		_, _ = purgatory.AwaitRead(t.Context(), p, time.Hour, func(context.Context) (int, bool, error) { panic("of the user's") }, "a")
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = purgatory.AwaitRead(t.Context(), p, time.Hour, func(context.Context) (int, bool, error) { runtime.Goexit(); return 0, false, nil }, "a")
	}()
	<-done
	assert.EqualValues(t, 2, p.Stats().Cancelled)
	nothingLeft(t, p)
}

// Waiters, signals that each follow a change, and timeouts, contexts and cancellations
// that race with them: no change is lost, and each wait returns once.
func TestAwaitReadLosesNoChangeWhateverRaces(t *testing.T) {
	const keys, rounds = 4, 300
	p := open[string](t, purgatory.WithTick(50*time.Microsecond))
	var wg sync.WaitGroup
	var met, ended atomic.Int64
	for g := range 2 * keys {
		wg.Go(func() {
			key := fmt.Sprint("key", g%keys)
			for i := range rounds {
				var state atomic.Int64
				ctx, cancel := context.WithCancelCause(t.Context())
				timeout := time.Hour
				var others sync.WaitGroup
				others.Go(func() { runtime.Gosched(); state.Store(1); p.Signal(key) })
				switch i % 4 {
				case 1:
					timeout = time.Duration(1+i%100) * time.Microsecond
				case 2:
					others.Go(func() { runtime.Gosched(); cancel(errGone) })
				case 3:
					others.Go(func() { p.CancelForKey(key, errGone) })
				}
				v, err := purgatory.AwaitRead(ctx, p, timeout, func(context.Context) (int64, bool, error) {
					v := state.Load()
					return v, v == 1, nil
				}, key)
				if err == nil {
					assert.EqualValues(t, 1, v)
					met.Add(1)
				} else {
					ended.Add(1)
				}
				others.Wait()
				cancel(nil)
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 2*keys*rounds, met.Load()+ended.Load())
	assert.Positive(t, met.Load())
	nothingLeft(t, p)
}

// An AwaitRead that has to wait its turn reads once before it sleeps, and sees that its context
// has ended.
func TestAwaitReadInLineReadsAndSeesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t, purgatory.WithFirstInFirstOut())
		first := &op{}
		submit(t, p, first, hour, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reads, began := 0, time.Now()
		_, err := purgatory.AwaitRead(ctx, p, time.Hour, func(context.Context) (int, bool, error) {
			reads++
			return 0, false, nil
		}, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, reads)
		assert.Equal(t, time.Second, time.Since(began))
		value, err := purgatory.AwaitRead(t.Context(), p, time.Hour, func(context.Context) (int, bool, error) { return 7, true, nil }, "a")
		require.NoError(t, err)
		assert.Equal(t, 7, value)
	})
}

// What a failed read has started with its context finds the error there.
func TestAFailedReadIsTheCauseOfItsContext(t *testing.T) {
	p, err := purgatory.New[string](t.Name())
	require.NoError(t, err)
	defer nothingLeft(t, p)
	var with context.Context
	_, err = purgatory.AwaitRead(context.Background(), p, time.Hour, func(ctx context.Context) (int, bool, error) {
		with = ctx
		return 0, false, errRead
	}, "orders-0")
	require.ErrorIs(t, err, errRead)
	assert.Equal(t, errRead, context.Cause(with))
}

// If a check holds the operation behind AwaitRead when the context ends, AwaitRead waits until
// the check lets go, and returns the context's cause. A log handler keeps the check busy here.
func TestAwaitReadWaitsForACheckThatHoldsIt(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p := onManualClock[string](t, purgatory.WithSlowCallback(1), purgatory.WithLogger(slog.New(onEvent(func(event string) {
		if event == purgatory.EventSlow {
			once.Do(func() { close(entered); <-leave })
		}
	}))))
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := purgatory.AwaitRead(ctx, p, time.Hour, func(context.Context) (int, bool, error) { return 0, false, nil }, "a")
		returned <- err
	}()
	require.Eventually(t, func() bool { return p.NumDelayed() == 1 }, deadline, time.Millisecond)
	var checks sync.WaitGroup
	checks.Go(func() {
		for { // a try that takes no time on the clock is not slow
			select {
			case <-entered:
				return
			default:
				p.CheckAndComplete("a")
			}
		}
	})
	<-entered
	cancel(gone)
	require.Eventually(t, func() bool {
		return p.Wishes() == 1
	}, deadline, time.Millisecond, "AwaitRead leaves its wish to the check")
	close(leave)
	require.Equal(t, gone, <-returned)
	checks.Wait()
	assert.Zero(t, p.NumDelayed())
}

// watchedContext is a context that counts who wants to be told of its end.
type watchedContext struct {
	context.Context
	watching atomic.Int64
	watched  func() // is told of each, if it is not nil
}

func (c *watchedContext) AfterFunc(func()) (stop func() bool) {
	c.watching.Add(1)
	if c.watched != nil {
		c.watched()
	}
	var stopped atomic.Bool
	return func() bool {
		first := !stopped.Swap(true)
		if first {
			c.watching.Add(-1)
		}
		return first
	}
}

func (c *watchedContext) Value(any) any { return nil }

// However an AwaitRead ends, its caller's context, which may live for long, does not refer to it
// afterwards.
func TestAnAwaitReadLeavesNothingInItsContext(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := &watchedContext{Context: parent}
	p := onManualClock[string](t, purgatory.WithMaxPending(1))
	read := func(ok bool, err error, then func()) error {
		_, got := purgatory.AwaitRead(ctx, p, hour, func(context.Context) (int, bool, error) {
			assert.EqualValues(t, 1, ctx.watching.Load(), "the context of a read ends with ctx")
			then()
			return 0, ok, err
		}, "a")
		return got
	}
	nothing := func() {}
	require.NoError(t, read(true, nil, nothing))
	assert.Zero(t, ctx.watching.Load(), "it has read")
	require.ErrorIs(t, read(false, errGone, nothing), errGone)
	assert.Zero(t, ctx.watching.Load(), "it has failed")
	require.ErrorIs(t, read(false, nil, func() { p.CancelForKey("a", errGone) }), errGone)
	assert.Zero(t, ctx.watching.Load(), "it was cancelled")
	o := submitted(t, p, "b")
	require.ErrorIs(t, read(true, nil, nothing), purgatory.ErrFull)
	assert.Zero(t, ctx.watching.Load(), "it was refused")
	p.ForceComplete(o)
	empty(t, p)
}

// A check may come after the reader has been woken and before it looks whether a read is asked for. The reader is woken
// once more for it, and finds that nothing is asked for: this leaves nothing in its caller's context either.
func TestAReadThatIsNotNeededLeavesNothingInItsContext(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := onManualClock[string](t)
	ctx := &watchedContext{Context: parent}
	var looks, reads atomic.Int64
	ctx.watched = func() {
		if looks.Add(1) == 1 {
			p.CheckAndComplete("a")
		}
	}
	value := startRead(ctx, p, hour, func(context.Context) (int64, bool, error) {
		assert.EqualValues(t, 1, ctx.watching.Load(), "that of this read")
		return 7, reads.Add(1) == 2, nil
	}, "a")
	require.Eventually(t, func() bool { return looks.Load() == 2 }, deadline, time.Millisecond, "the check has woken the reader again")
	require.Eventually(t, func() bool { return ctx.watching.Load() == 0 }, deadline, time.Millisecond, "nothing is left of that")
	assert.EqualValues(t, 1, reads.Load())
	p.CheckAndComplete("a")
	assert.Equal(t, result{7, nil}, <-value)
	assert.Zero(t, ctx.watching.Load())
	empty(t, p)
}

// lastWord is a context whose methods are the user's: the function that AfterFunc returns does not return.
type lastWord struct {
	context.Context
	word func()
}

func (l *lastWord) AfterFunc(func()) (stop func() bool) {
	return func() bool { l.word(); return true }
}

func (*lastWord) Value(any) any { return nil }

// The end of a wait ends the context of its read, and so runs code of the caller's context.
func TestAContextThatPanicsAtTheEndOfAReadHidesNothing(t *testing.T) {
	for name, word := range map[string]func(){"panics": func() { panic("of the context") }, "calls Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var seen panics
			p := onManualClock[string](t, seen.option())
			var armed atomic.Bool
			ctx := &lastWord{aWhile(t), func() {
				if armed.Swap(false) {
					word()
				}
			}}
			reading, returned := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := purgatory.AwaitRead(ctx, p, hour, func(with context.Context) (int, bool, error) {
					armed.Store(true)
					close(reading)
					<-with.Done()
					return 0, false, with.Err()
				}, "a")
				returned <- err
			}()
			<-reading
			inBackground(func() { p.CancelForKey("a", errGone) })()
			soon(t, "AwaitRead returns", func() { assert.ErrorIs(t, <-returned, errGone) })
			empty(t, p)
		})
	}
}
