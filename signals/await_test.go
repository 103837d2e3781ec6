package signals_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/purgatory/purgatorytest"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
)

var (
	errRead = errors.New("cannot be read")
	errGone = errors.New("gone")
)

// waits returns a purgatory that is closed when the test ends.
func waits(t *testing.T, opts ...purgatory.Option) *purgatory.Purgatory[string] {
	t.Helper()
	p, err := purgatory.New[string]("test", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// nothingLeft asserts that nobody waits, and shuts p down.
func nothingLeft(t *testing.T, p *purgatory.Purgatory[string]) {
	t.Helper()
	assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)}, "left behind")
	require.NoError(t, p.Shutdown(context.Background()))
	s := p.Stats()
	assert.Equal(t, s.Accepted, s.Satisfied+s.Expired+s.Cancelled+s.Closed+s.Forced)
}

// result is what AwaitRead has returned.
type result struct {
	value int64
	err   error
}

// startRead calls AwaitRead on another goroutine.
func startRead(ctx context.Context, p *purgatory.Purgatory[string], timeout time.Duration, read func(context.Context) (int64, bool, error), keys ...string) <-chan result {
	c := make(chan result, 1)
	go func() {
		value, err := signals.AwaitRead(ctx, p, timeout, read, keys...)
		c <- result{value, err}
	}()
	return c
}

func TestAwaitReadReturnsHowItEnded(t *testing.T) {
	tests := map[string]struct {
		do   func(p *purgatory.Purgatory[string], state *atomic.Int64, cancel context.CancelCauseFunc)
		want result
	}{
		"checked": {func(p *purgatory.Purgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(10)
			p.CheckAndComplete("b") // it only wakes the reader; if that is fast, the check ends the wait for it
		}, result{10, nil}},
		"signalled": {func(p *purgatory.Purgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(11)
			p.Signal("a")
		}, result{11, nil}},
		"error of read": {func(p *purgatory.Purgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(-1)
			p.Signal("a")
		}, result{-1, errRead}},
		"timeout with what it has": {func(p *purgatory.Purgatory[string], state *atomic.Int64, _ context.CancelCauseFunc) {
			state.Store(3)
			p.Signal("a")
			time.Sleep(2 * time.Minute)
		}, result{3, purgatory.ErrExpired}},
		"context": {func(_ *purgatory.Purgatory[string], _ *atomic.Int64, cancel context.CancelCauseFunc) {
			cancel(errGone)
		}, result{1, errGone}},
		"key cancelled": {func(p *purgatory.Purgatory[string], _ *atomic.Int64, _ context.CancelCauseFunc) {
			p.CancelForKey("b", errGone)
		}, result{1, errGone}},
		"cancelled without a cause": {func(p *purgatory.Purgatory[string], _ *atomic.Int64, _ context.CancelCauseFunc) {
			p.CancelForKey("b", nil)
		}, result{1, purgatory.ErrCancelled}},
		"closed": {func(p *purgatory.Purgatory[string], _ *atomic.Int64, _ context.CancelCauseFunc) {
			_ = p.Close()
		}, result{1, purgatory.ErrClosed}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := waits(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var state atomic.Int64
				state.Store(1)
				got := startRead(ctx, p, time.Minute, func(context.Context) (int64, bool, error) {
					if v := state.Load(); v >= 0 {
						return v, v >= 10, nil
					}
					return -1, true, errRead
				}, "a", "b")
				synctest.Wait()
				assert.Equal(t, []int{1, 2, 2}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
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

func TestSignalsDuringAReadCauseOneMoreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
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
		end  func(p *purgatory.Purgatory[string], cancel context.CancelCauseFunc)
		want error
	}{
		"timeout": {func(*purgatory.Purgatory[string], context.CancelCauseFunc) {}, purgatory.ErrExpired},
		"context": {func(_ *purgatory.Purgatory[string], cancel context.CancelCauseFunc) { cancel(errGone) }, errGone},
		"cancelled": {func(p *purgatory.Purgatory[string], _ context.CancelCauseFunc) {
			p.CancelForKey("a", errGone)
		}, errGone},
		"closed": {func(p *purgatory.Purgatory[string], _ context.CancelCauseFunc) { _ = p.Close() }, purgatory.ErrClosed},
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
					p := waits(t)
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
		p := waits(t)
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

// Waiters, signals that each follow a change, and timeouts, contexts and cancellations
// that race with them: no change is lost, and each wait returns once.
func TestAwaitReadLosesNoChangeWhateverRaces(t *testing.T) {
	const keys, rounds = 4, 300
	p := waits(t, purgatory.WithTick(50*time.Microsecond))
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
				v, err := signals.AwaitRead(ctx, p, timeout, func(context.Context) (int64, bool, error) {
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
	p := waits(t, purgatory.WithMaxPending(1))
	read := func(ok bool, err error, then func()) error {
		_, got := signals.AwaitRead(ctx, p, time.Hour, func(context.Context) (int, bool, error) {
			assert.EqualValues(t, 1, ctx.watching.Load(), "the context of a read ends with ctx")
			then()
			return 0, ok, err
		}, "a")
		return got
	}
	nothing := func() {}
	require.NoError(t, read(true, nil, nothing))
	assert.Zero(t, ctx.watching.Load(), "it has read")
	require.ErrorIs(t, read(true, errGone, nothing), errGone)
	assert.Zero(t, ctx.watching.Load(), "it has failed")
	require.ErrorIs(t, read(false, nil, func() { p.CancelForKey("a", errGone) }), errGone)
	assert.Zero(t, ctx.watching.Load(), "it was cancelled")
	w, err := p.StartWait(time.Hour, func() bool { return false }, "b")
	require.NoError(t, err)
	require.ErrorIs(t, read(true, nil, nothing), purgatory.ErrFull)
	assert.Zero(t, ctx.watching.Load(), "it was refused")
	w.Stop()
	nothingLeft(t, p)
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
			synctest.Test(t, func(t *testing.T) {
				p := waits(t, purgatory.WithPanicHandler(func(any, []byte) {}))
				var armed atomic.Bool
				ctx := &lastWord{t.Context(), func() {
					if armed.Swap(false) {
						word()
					}
				}}
				got := startRead(ctx, p, time.Hour, func(with context.Context) (int64, bool, error) {
					armed.Store(true)
					<-with.Done()
					return 0, false, with.Err()
				}, "a")
				synctest.Wait()
				go p.CancelForKey("a", errGone)
				assert.ErrorIs(t, (<-got).err, errGone)
				nothingLeft(t, p)
			})
		})
	}
}

func TestAwaitReadWithoutTimeReadsOnceWithTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		over, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		var reads int
		for _, test := range []struct {
			ctx     context.Context
			timeout time.Duration
			done    bool
			err     error
			want    result
			reads   int
		}{
			{t.Context(), 0, false, nil, result{7, purgatory.ErrExpired}, 1},
			{t.Context(), -1, true, nil, result{7, nil}, 1},
			{t.Context(), 0, false, errRead, result{7, errRead}, 1},
			{t.Context(), 0, true, errRead, result{7, errRead}, 1},
			{t.Context(), time.Hour, true, nil, result{7, nil}, 1},
			{t.Context(), time.Hour, true, errRead, result{7, errRead}, 1},
			{over, 0, true, nil, result{0, errGone}, 0},
			{over, time.Hour, true, nil, result{0, errGone}, 0},
		} {
			reads = 0
			v, err := signals.AwaitRead(test.ctx, p, test.timeout, func(ctx context.Context) (int64, bool, error) {
				if reads++; test.timeout <= 0 {
					assert.Equal(t, test.ctx, ctx)
				}
				return 7, test.done, test.err
			}, "a")
			assert.Equal(t, test.want.value, v)
			assert.ErrorIs(t, err, test.want.err)
			assert.Equal(t, test.reads, reads)
		}
		nothingLeft(t, p)
	})
}

func TestAwaitReadSaysWhyItIsRefused(t *testing.T) {
	p := waits(t)
	yes := func(context.Context) (int, bool, error) { return 0, true, nil }
	for _, timeout := range []time.Duration{0, time.Hour, purgatory.NoTimeout} {
		_, err := signals.AwaitRead[int](t.Context(), p, timeout, nil, "a")
		require.ErrorIs(t, err, purgatory.ErrNilOperation)
		_, err = signals.AwaitRead(t.Context(), p, timeout, yes)
		require.ErrorIs(t, err, purgatory.ErrNoKeys)
	}
	nothingLeft(t, p)
	for _, timeout := range []time.Duration{0, time.Hour} {
		_, err := signals.AwaitRead(t.Context(), p, timeout, yes, "a")
		require.ErrorIs(t, err, purgatory.ErrClosed)
	}
	var none context.Context
	assert.PanicsWithValue(t, "signals: AwaitRead was called with a nil context: use context.Background()", func() {
		_, _ = signals.AwaitRead(none, p, time.Hour, yes, "a")
	})
	assert.PanicsWithValue(t, "signals: AwaitRead was called with a nil purgatory", func() {
		_, _ = signals.AwaitRead[int, string](t.Context(), nil, time.Hour, yes, "a")
	})
}

func TestAPanicInReadReachesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		var with context.Context
		assert.PanicsWithValue(t, "of the user's", func() {
			_, _ = signals.AwaitRead(t.Context(), p, time.Hour, func(ctx context.Context) (int, bool, error) {
				with = ctx
				panic("of the user's")
			}, "a")
		})
		assert.Error(t, with.Err(), "the context of the read")
		go func() {
			_, _ = signals.AwaitRead(t.Context(), p, time.Hour, func(context.Context) (int, bool, error) { runtime.Goexit(); return 0, false, nil }, "a")
		}()
		synctest.Wait()
		assert.EqualValues(t, 2, p.Stats().Cancelled)
		nothingLeft(t, p)
	})
}

// What a failed read has started with its context finds the error there.
func TestAFailedReadIsTheCauseOfItsContext(t *testing.T) {
	p := waits(t)
	var with context.Context
	_, err := signals.AwaitRead(t.Context(), p, time.Hour, func(ctx context.Context) (int, bool, error) {
		with = ctx
		return 0, true, errRead
	}, "orders-0")
	require.ErrorIs(t, err, errRead)
	assert.Equal(t, errRead, context.Cause(with))
	nothingLeft(t, p)
}

func TestAReadThatFailsIsMadeAgainWhileTheWaitLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		began, reads := time.Now(), []time.Duration{}
		v, err := signals.AwaitRead(t.Context(), p, time.Minute, func(context.Context) (int, bool, error) {
			if reads = append(reads, time.Since(began)); time.Since(began) < 5*time.Second {
				return 0, false, errRead
			}
			return 7, true, nil
		}, "a")
		require.NoError(t, err)
		assert.Equal(t, 7, v)
		assert.Less(t, time.Since(began), 7*time.Second, "at most the longest pause after it could be read")
		assert.LessOrEqual(t, len(reads), 11, "the pauses grow: %v", reads)
		assert.GreaterOrEqual(t, len(reads), 6, "%v", reads)
		for i, at := range reads[1:] {
			pause := at - reads[i]
			assert.LessOrEqual(t, pause, 2*time.Second)
			assert.GreaterOrEqual(t, pause, 25*time.Millisecond)
		}
		nothingLeft(t, p)
	})
}

// A wait outlives many outages: each begins with the first pause, and one that is over is not in the error of the end.
func TestALongWaitReadsInEachOutageAsInTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		const outages = 5
		var down atomic.Bool
		var reads []time.Time // of this outage
		ended := make(chan error, 1)
		go func() {
			_, err := signals.AwaitRead(t.Context(), p, purgatory.NoTimeout, func(context.Context) (int, bool, error) {
				reads = append(reads, time.Now())
				if down.Load() {
					return 0, false, errRead
				}
				return 0, false, nil
			}, "a")
			ended <- err
		}()
		for range outages {
			synctest.Wait()
			reads = nil
			down.Store(true)
			p.CheckAndComplete("a")
			time.Sleep(5 * time.Minute)
			down.Store(false)
			time.Sleep(time.Minute) // the last of these reads succeeds
			synctest.Wait()
			if assert.Greater(t, len(reads), 100) {
				for i, most := range []time.Duration{50, 100, 200, 400} {
					pause := reads[i+1].Sub(reads[i])
					assert.LessOrEqual(t, pause, most*time.Millisecond)
					assert.GreaterOrEqual(t, pause, most*time.Millisecond/2)
				}
			}
		}
		assert.Equal(t, 1, p.CancelForKey("a", errBroken))
		assert.Equal(t, errBroken, <-ended)
		nothingLeft(t, p)
	})
}

// A thousand reads that fail at one moment are not made again at one moment.
func TestReadsThatFailTogetherAreMadeAgainApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		var mu sync.Mutex
		at := map[time.Time]int{}
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				reads := 0
				_, err := signals.AwaitRead(t.Context(), p, time.Minute, func(context.Context) (int, bool, error) {
					if reads++; reads == 1 {
						return 0, false, errRead
					}
					mu.Lock()
					defer mu.Unlock()
					at[time.Now()]++
					return 0, true, nil
				}, fmt.Sprint(i))
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Greater(t, len(at), 900, "moments of a thousand reads")
		nothingLeft(t, p)
	})
}

func TestACheckCutsThePauseAfterAReadThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		reads := 0
		began := time.Now()
		got := startRead(t.Context(), p, time.Minute, func(context.Context) (int64, bool, error) {
			if reads++; reads == 1 {
				return 0, false, errRead
			}
			return 7, true, nil
		}, "a")
		synctest.Wait()
		p.CheckAndComplete("a")
		assert.Equal(t, result{7, nil}, <-got)
		assert.Zero(t, time.Since(began))
		nothingLeft(t, p)
	})
}

func TestTheLastErrorOfAReadIsTheCauseOfTheEnd(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(p *purgatory.Purgatory[string], cancel context.CancelCauseFunc)
		want error
	}{
		"timeout":   {func(*purgatory.Purgatory[string], context.CancelCauseFunc) { time.Sleep(time.Minute) }, purgatory.ErrExpired},
		"context":   {func(_ *purgatory.Purgatory[string], cancel context.CancelCauseFunc) { cancel(errGone) }, errGone},
		"cancelled": {func(p *purgatory.Purgatory[string], _ context.CancelCauseFunc) { p.CancelForKey("a", errGone) }, errGone},
		"closed":    {func(p *purgatory.Purgatory[string], _ context.CancelCauseFunc) { _ = p.Close() }, purgatory.ErrClosed},
	} {
		for _, mended := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", mended ", mended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := waits(t)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					began := time.Now()
					got := startRead(ctx, p, time.Minute, func(context.Context) (int64, bool, error) {
						if mended && time.Since(began) > 10*time.Second {
							return 2, false, nil
						}
						return 1, false, errRead
					}, "a")
					time.Sleep(30*time.Second + time.Nanosecond)
					end.by(p, cancel)
					r := <-got
					require.ErrorIs(t, r.err, end.want)
					if mended {
						assert.Equal(t, int64(2), r.value)
						assert.NotErrorIs(t, r.err, errRead, "a later read was good")
					} else {
						assert.Zero(t, r.value, "none has succeeded")
						assert.ErrorIs(t, r.err, errRead)
					}
					nothingLeft(t, p)
				})
			})
		}
	}
}

// A wait that is cancelled, or whose purgatory closes, after its registration and before its first read makes none.
func TestAWaitThatIsCancelledBeforeItsFirstReadMakesNone(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(p *purgatory.Purgatory[string], cancel context.CancelCauseFunc)
		want error
	}{
		"cancelled": {func(p *purgatory.Purgatory[string], _ context.CancelCauseFunc) { p.CancelForKey("a", errGone) }, errGone},
		"closed":    {func(p *purgatory.Purgatory[string], _ context.CancelCauseFunc) { _ = p.Close() }, purgatory.ErrClosed},
		"cancelled after a check": {func(p *purgatory.Purgatory[string], _ context.CancelCauseFunc) {
			p.CheckAndComplete("a")
			p.CancelForKey("a", errGone)
		}, errGone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := waits(t)
				parent, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ctx := &watchedContext{Context: parent, watched: func() { end.by(p, cancel) }} // asked before a read begins
				_, err := signals.AwaitRead(ctx, p, time.Hour, func(context.Context) (int, bool, error) {
					t.Error("it reads")
					return 0, false, nil
				}, "a")
				require.ErrorIs(t, err, end.want)
				nothingLeft(t, p)
			})
		})
	}
}

// A healthy server whose waits read wastes no check (issue 61): each that wakes a wait ends an operation.
func TestAWakeUpOfAReadIsNoWastedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting, changes = 100, 10
		p := waits(t)
		var state, reads atomic.Int64
		var all sync.WaitGroup
		for i := range waiting {
			all.Go(func() {
				_, err := signals.AwaitRead(t.Context(), p, time.Hour, func(context.Context) (int64, bool, error) {
					reads.Add(1)
					v := state.Load()
					return v, v == changes, nil
				}, fmt.Sprint("key", i))
				assert.NoError(t, err)
			})
		}
		for range changes {
			synctest.Wait()
			state.Add(1)
			for i := range waiting {
				assert.Equal(t, 1, p.CheckAndComplete(fmt.Sprint("key", i)))
			}
		}
		all.Wait()
		s := p.Stats()
		assert.EqualValues(t, waiting*(1+changes), reads.Load(), "one read at first, and one for each change")
		assert.EqualValues(t, waiting*changes, s.Satisfied)
		assert.EqualValues(t, waiting, s.Forced, "the last operation of each wait")
		assert.LessOrEqual(t, 2*s.WastedChecks, s.Checks, "tries of the next operation by the check that has ended the one before")
		nothingLeft(t, p)
	})
}

// A reader whose context ends has given up, whatever its cause, and nobody else has.
func TestReadersThatTheirContextsEndAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		never := func(context.Context) (int, bool, error) { return 0, false, nil }
		read := func(ctx context.Context, timeout time.Duration, read func(context.Context) (int, bool, error)) error {
			_, err := signals.AwaitRead(ctx, p, timeout, read, "a")
			return err
		}
		for _, cause := range []error{nil, errBroken} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
			defer cancel()
			require.Error(t, read(ctx, time.Hour, never))
			require.Error(t, read(ctx, time.Hour, never), "it had ended before, and was no wait")
		}
		assert.EqualValues(t, 2, p.Stats().GaveUp)
		require.ErrorIs(t, read(t.Context(), time.Second, never), purgatory.ErrExpired)
		require.NoError(t, read(t.Context(), time.Second, func(context.Context) (int, bool, error) { return 1, true, nil }))
		go func() { time.Sleep(time.Second); p.CancelForKey("a", context.Canceled) }()
		require.ErrorIs(t, read(t.Context(), time.Hour, never), context.Canceled)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, read(ctx, time.Hour, func(context.Context) (int, bool, error) { cancel(); return 1, true, nil }))
		assert.EqualValues(t, 2, p.Stats().GaveUp)
		nothingLeft(t, p)
	})
}

// A wait that was accepted keeps its place when it is woken, where the purgatory is full.
func TestAReaderThatIsWokenKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t, purgatory.WithMaxPending(1))
		var state atomic.Int64
		got := startRead(t.Context(), p, time.Hour, func(context.Context) (int64, bool, error) {
			v := state.Load()
			return v, v == 3, nil
		}, "a")
		for range 3 {
			synctest.Wait()
			assert.ErrorIs(t, p.Await(t.Context(), time.Hour, func() bool { return false }, "a"), purgatory.ErrFull)
			state.Add(1)
			p.CheckAndComplete("a")
		}
		assert.Equal(t, result{3, nil}, <-got)
		nothingLeft(t, p)
	})
}

// Shutdown lets a wait go on until its context ends, however often the wait is woken.
func TestAReaderThatIsWokenGoesOnThroughADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		var state atomic.Int64
		got := startRead(t.Context(), p, time.Hour, func(context.Context) (int64, bool, error) {
			v := state.Load()
			return v, v == 3, nil
		}, "a")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		down := make(chan error, 1)
		go func() { down <- p.Shutdown(ctx) }()
		for range 3 {
			time.Sleep(time.Second)
			state.Add(1)
			p.CheckAndComplete("a")
		}
		assert.Equal(t, result{3, nil}, <-got)
		assert.NoError(t, <-down)
		assert.NoError(t, ctx.Err())
	})
}

// The timeout counts from the beginning, on the purgatory's clock, however often the wait is woken, and ends a read.
func TestATimeoutOfAReaderCountsFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewManualTimer()
		require.NoError(t, err)
		p := waits(t, purgatory.WithTimer(clock))
		reads := 0
		got := startRead(t.Context(), p, 10*time.Second, func(ctx context.Context) (int64, bool, error) {
			if reads++; reads == 10 {
				<-ctx.Done()
				return 0, false, ctx.Err()
			}
			return int64(reads), false, nil
		}, "a")
		for range 9 {
			synctest.Wait()
			p.AdvanceClock(time.Second)
			p.CheckAndComplete("a")
		}
		synctest.Wait()
		p.CheckAndComplete("a") // during the read
		p.AdvanceClock(time.Second)
		r := <-got
		assert.ErrorIs(t, r.err, purgatory.ErrExpired)
		assert.Equal(t, int64(11), r.value)
		assert.Equal(t, 11, reads, "once more, for the check before the timeout")
		nothingLeft(t, p)
	})
}

// requestContext is a context that is not of package context, as those of some servers are.
type requestContext struct {
	context.Context
	gone chan struct{}
}

func (c *requestContext) Done() <-chan struct{} { return c.gone }

func (c *requestContext) Err() error {
	select {
	case <-c.gone:
		return errGone
	default:
		return nil
	}
}

// The context of a read ends with it, with the wait, or with the caller's context, whatever type that has.
func TestTheContextOfAReadUnderOneOfAnotherType(t *testing.T) {
	for name, end := range map[string]func(ctx *requestContext, p *purgatory.Purgatory[string]){
		"the caller's context": func(ctx *requestContext, _ *purgatory.Purgatory[string]) { close(ctx.gone) },
		"the wait":             func(_ *requestContext, p *purgatory.Purgatory[string]) { p.CancelForKey("a", errGone) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := waits(t)
				ctx := &requestContext{t.Context(), make(chan struct{})}
				var first context.Context
				got := startRead(ctx, p, time.Minute, func(with context.Context) (int64, bool, error) {
					if first == nil {
						first = with
						return 1, false, nil
					}
					assert.Error(t, first.Err(), "the context of the first read, which is over")
					<-with.Done()
					assert.ErrorIs(t, context.Cause(with), errGone)
					return 0, false, with.Err()
				}, "a")
				synctest.Wait()
				p.Signal("a")
				synctest.Wait()
				end(ctx, p)
				r := <-got
				assert.EqualValues(t, 1, r.value)
				assert.ErrorIs(t, r.err, errGone)
				nothingLeft(t, p)
			})
		})
	}
}

// An AwaitRead whose context has ended does not read once more, though that was asked for during the read before.
func TestNothingIsReadForAClientThatHasLeft(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			p := waits(t)
			ctx, leave := context.WithCancelCause(t.Context())
			reads, entered, leaves := 0, make(chan struct{}), make(chan struct{})
			got := startRead(ctx, p, time.Hour, func(context.Context) (int64, bool, error) {
				if reads++; reads == 1 {
					close(entered)
					<-leaves
				}
				return 0, false, nil
			}, "a")
			<-entered
			p.CheckAndComplete("a")
			leave(errGone)
			p.CheckAndComplete("a")
			close(leaves)
			require.Equal(t, errGone, (<-got).err)
			require.Equal(t, 1, reads)
			nothingLeft(t, p)
		})
	}
}

// To link a context to one of another type takes a goroutine. A wait whose read has said no has none.
func TestAReaderUnderAContextOfAnotherTypeStartsNoGoroutine(t *testing.T) {
	const waiting = 600
	synctest.Test(t, func(t *testing.T) {
		p := waits(t)
		ctx := &requestContext{t.Context(), make(chan struct{})}
		before := runtime.NumGoroutine()
		var all []<-chan result
		for range waiting {
			all = append(all, startRead(ctx, p, time.Hour, func(context.Context) (int64, bool, error) { return 0, false, nil }, "a"))
		}
		for range 2 {
			synctest.Wait()
			assert.Less(t, runtime.NumGoroutine()-before, waiting+20, "the reaper and the like")
			assert.Equal(t, waiting, p.NumDelayed())
			p.CheckAndComplete("a") // each reads once more
		}
		synctest.Wait()
		close(ctx.gone)
		for _, got := range all {
			assert.ErrorIs(t, (<-got).err, errGone)
		}
		nothingLeft(t, p)
	})
}

// The judge of purgatorytest tries what expires once more. A reader has no condition that it could find met.
func TestAReaderThatExpiresIsNoForgottenCheck(t *testing.T) {
	p := purgatorytest.New[string](t)
	got := startRead(t.Context(), p.Purgatory, time.Minute, func(context.Context) (int64, bool, error) { return 7, false, nil }, "a")
	p.WaitPending(1)
	p.JustAfter(time.Minute)
	r := <-got
	assert.Equal(t, int64(7), r.value)
	assert.ErrorIs(t, r.err, purgatory.ErrExpired)
}

// BenchmarkWakeup is a goroutine that reads a number until it has risen, and one that raises it and waits for the
// answer: two switches of goroutines, and what waiting costs.
func BenchmarkWakeup(b *testing.B) {
	for name, await := range map[string]func(ctx context.Context, p *purgatory.Purgatory[string], met func() bool) error{
		"AwaitRead": func(ctx context.Context, p *purgatory.Purgatory[string], met func() bool) error {
			_, err := signals.AwaitRead(ctx, p, time.Minute, func(context.Context) (int, bool, error) { return 0, met(), nil }, "key")
			return err
		},
		"Await": func(ctx context.Context, p *purgatory.Purgatory[string], met func() bool) error {
			return p.Await(ctx, time.Minute, met, "key")
		},
	} {
		b.Run(name, func(b *testing.B) {
			p := purgatory.Must(purgatory.New[string]("bench"))
			defer p.Close()
			var state atomic.Int64
			answered := make(chan error)
			go func() {
				defer close(answered)
				for want := int64(1); ; want++ {
					err := await(context.Background(), p, func() bool { return state.Load() >= want })
					answered <- err
					if err != nil {
						return
					}
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				runtime.Gosched()
				state.Add(1)
				p.CheckAndComplete("key")
				if err := <-answered; err != nil {
					b.Fatal(err)
				}
			}
			_ = p.Close()
			for range answered {
			}
		})
	}
}
