package signals_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// A function may keep the slice of keys that it was given.
func TestEachBulkReadHasASliceOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waits = 2500
		p := open(t)
		var kept [][]string
		r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0), signals.WithResync(func(_ context.Context, keys []string) error {
			kept = append(kept, keys)
			return nil
		}))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range waits {
			go func() { _ = p.Await(ctx, time.Hour, func() bool { return false }, fmt.Sprint("key", i)) }()
		}
		synctest.Wait()
		stop := runIn(t, r, script(stands))
		synctest.Wait()
		assert.Len(t, slices.Compact(slices.Sorted(slices.Values(slices.Concat(kept...)))), waits)
		stop()
		cancel()
		synctest.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestBulkReadsAreFewAndComeBeforeTheReCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waits = 2500
		p := open(t)
		truth, copied := map[string]bool{}, sync.Map{}
		var calls []int
		r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0), signals.WithResync(func(_ context.Context, keys []string) error {
			calls = append(calls, len(keys))
			if len(calls) <= 2 {
				return errBroken // and these keys are read again, in two batches
			}
			for _, key := range keys {
				copied.Store(key, truth[key])
			}
			return nil
		}))
		require.NoError(t, err)
		var tries, answered atomic.Int64
		for i := range waits {
			key := fmt.Sprint("key", i)
			truth[key] = true
			go func() {
				err := p.Await(t.Context(), time.Hour, func() bool {
					tries.Add(1)
					v, _ := copied.Load(key)
					return v == true
				}, key)
				assert.NoError(t, err)
				answered.Add(1)
			}()
		}
		synctest.Wait()
		before := tries.Load()
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Minute)
		assert.EqualValues(t, waits, answered.Load())
		assert.Equal(t, []int{1000, 1000, 500, 1000, 1000}, calls)
		assert.EqualValues(t, waits, tries.Load()-before, "one re-check")
		s := r.Stats()
		assert.Equal(t, []int64{5, 2, 1}, []int64{s.BulkReads, s.Failures, s.Rechecks})
		stop()
		stop = runIn(t, r, script(stands)) // nobody waits: nothing is read
		synctest.Wait()
		assert.EqualValues(t, 5, r.Stats().BulkReads)
		assert.EqualValues(t, 2, r.Stats().Rechecks)
		stop()
		require.NoError(t, p.Close())
	})
}

// A bulk read that hangs ends with its context at the latest, and Run does not return before.
func TestRunWaitsForABulkRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		waiter, leave := context.WithCancel(t.Context())
		go func() { _ = p.Await(waiter, time.Hour, func() bool { return false }, "a") }()
		synctest.Wait()
		reading := false
		var log bytes.Buffer
		var r *signals.Runner[string]
		r, err := signals.To(p, signals.WithAudit(0), signals.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), signals.WithResync(func(ctx context.Context, _ []string) error {
			reading = true
			<-ctx.Done()
			time.Sleep(time.Minute) // it hangs: a server that does not answer
			assert.True(t, r.Stats().Running, "nobody may run it again")
			reading = false
			return ctx.Err()
		}))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		synctest.Wait()
		assert.True(t, reading)
		stop()
		assert.False(t, reading, "Run has returned")
		assert.False(t, r.Stats().Running)
		assert.Equal(t, []int64{1, 0, 0}, []int64{r.Stats().BulkReads, r.Stats().Failures, r.Stats().Rechecks})
		assert.NotContains(t, log.String(), signals.EventUnread, "the end of Run is no failure")
		leave()
		synctest.Wait()
		require.NoError(t, p.Close())
	})
}

// asked is a context that says when somebody asks for its deadline, as who derives one with a time limit does.
type asked struct {
	context.Context
	when func()
}

func (a asked) Deadline() (time.Time, bool) {
	a.when()
	return a.Context.Deadline()
}

// A bulk read begins in the instant in which Run ends, and takes long: Run waits for that, too.
func TestRunWaitsForABulkReadThatBeginsInItsLastInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reading, cut := false, false
		r, err := signals.To[string](one{}, signals.WithLag(0), signals.WithAudit(0), signals.WithResync(func(context.Context, []string) error {
			reading = true
			time.Sleep(time.Minute)
			reading = false
			return nil
		}))
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		ending := asked{ctx, func() { // the bulk read is about to get its time limit
			if !cut {
				cut = true
				cancel(errBroken)
				time.Sleep(time.Second) // Run sees its end, and waits
			}
		}}
		require.ErrorIs(t, r.Run(ending, script(stands)), errBroken)
		assert.True(t, cut)
		assert.EqualValues(t, 1, r.Stats().BulkReads)
		assert.False(t, reading, "Run has returned")
		time.Sleep(time.Hour)
	})
}

func TestAGapDuringABulkReadCausesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		go func() { _ = p.Await(t.Context(), time.Hour, func() bool { return false }, "a") }()
		synctest.Wait()
		reading := make(chan struct{})
		r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithResync(func(ctx context.Context, _ []string) error {
			select {
			case reading <- struct{}{}:
			case <-ctx.Done():
			}
			return ctx.Err()
		}))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		synctest.Wait()
		for range 5 {
			r.Missed(errBroken)
		}
		<-reading
		<-reading // one for all five
		synctest.Wait()
		assert.EqualValues(t, 2, r.Stats().Rechecks)
		r.Missed(errBroken)
		synctest.Wait()
		stop() // in the middle of a read
		require.NoError(t, p.Close())
	})
}

// Until a call that hangs returns there is no bulk read, and then one is made at once.
func TestABulkReadIsMadeAgainWhenAHangIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given []context.Context
		r, err := signals.To[string](one{}, signals.WithLag(0), signals.WithAudit(0), signals.WithResyncLimit(time.Second), signals.WithResync(func(ctx context.Context, _ []string) error {
			if given = append(given, ctx); len(given) == 1 {
				time.Sleep(time.Hour)
			}
			return nil
		}))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Minute)
		r.Missed(errBroken)
		time.Sleep(time.Hour - time.Minute - time.Nanosecond)
		s := r.Stats()
		assert.Equal(t, []int64{1, 1, 2}, []int64{s.BulkReads, s.Failures, s.Rechecks})
		assert.Greater(t, s.Reading, 59*time.Minute)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s = r.Stats()
		assert.Equal(t, []int64{2, 1, 3}, []int64{s.BulkReads, s.Failures, s.Rechecks})
		assert.Zero(t, s.Reading)
		require.Len(t, given, 2)
		assert.ErrorIs(t, given[1].Err(), context.Canceled, "the context of a call ends with it")
		stop()
	})
}

// Two of three keys cannot be read: both are read again, and only these.
func TestTwoKeysThatCouldNotBeReadAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		var calls [][]string
		r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0), signals.WithResync(func(_ context.Context, keys []string) error {
			if calls = append(calls, slices.Sorted(slices.Values(keys))); len(calls) == 1 {
				return signals.UnreadError[string]{"a": errBroken, "c": errBroken}
			}
			return nil
		}))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		for _, key := range []string{"a", "b", "c"} {
			go func() { _ = p.Await(ctx, time.Hour, func() bool { return false }, key) }()
		}
		synctest.Wait()
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, [][]string{{"a", "b", "c"}, {"a", "c"}}, calls)
		s := r.Stats()
		assert.Equal(t, []int64{2, 1, 1, 3}, []int64{s.BulkReads, s.Failures, s.Rechecks, p.Stats().Signals})
		cancel()
		stop()
		require.NoError(t, p.Close())
	})
}

// One key that cannot be read, a panic, a Goexit or a hang keeps nothing but its own keys from being signalled.
func TestAFaultInABulkReadConcernsItsKeysOnly(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(ctx context.Context) error
		record string // in the log
		hangs  bool
	}{
		"one key": {fault: func(context.Context) error {
			return fmt.Errorf("table x: %w", signals.UnreadError[string]{"bad": errBroken})
		}, record: `error="table x: 1 keys could not be read, one of them: bad: broken" keys=1`},
		"one key, without a reason": {fault: func(context.Context) error {
			return signals.UnreadError[string]{"bad": nil}
		}, record: `error="1 keys could not be read, one of them: bad: <nil>" keys=1`},
		"a panic":               {fault: func(context.Context) error { panic(map[string]int{"x": 1}) }, record: "panic: a value of type map[string]int"},
		"a panic with an error": {fault: func(context.Context) error { panic(errBroken) }, record: "panic: broken"},
		"a panic with a text":   {fault: func(context.Context) error { panic("text") }, record: "panic: text"},
		"a Goexit":              {fault: func(context.Context) error { runtime.Goexit(); return nil }, record: "runtime.Goexit"},
		"its time limit": {fault: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, record: "deadline exceeded"},
		"a hang": {fault: func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		}, record: "does not return", hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t)
				var log bytes.Buffer
				var healed atomic.Bool
				r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(time.Minute), signals.WithSpread(0), signals.WithResyncLimit(10*time.Second),
					signals.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
					signals.WithResync(func(ctx context.Context, keys []string) error {
						if !healed.Load() && slices.Contains(keys, "bad") {
							return c.fault(ctx)
						}
						return nil
					}))
				require.NoError(t, err)
				tries := map[string]*atomic.Int64{"bad": new(atomic.Int64)}
				for i := range 1500 { // two batches: one of them has the bad key
					tries[fmt.Sprint("key", i)] = new(atomic.Int64)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var waits sync.WaitGroup
				for key, n := range tries {
					waits.Go(func() { _ = p.Await(ctx, 24*time.Hour, func() bool { n.Add(1); return false }, key) })
				}
				synctest.Wait()
				stop := runIn(t, r, script(stands))
				time.Sleep(2 * time.Second)
				during := r.Stats().Reading
				time.Sleep(30 * time.Second)
				var retried int
				for key, n := range tries {
					if key != "bad" && n.Load() > 2 {
						retried++
					}
				}
				switch {
				case c.hangs:
					assert.EqualValues(t, 3, tries["bad"].Load(), "without a bulk read")
					assert.InDelta(t, 32*time.Second, r.Stats().Reading, float64(time.Millisecond))
				case strings.HasPrefix(name, "one key"):
					assert.Equal(t, 1500, retried)
					fallthrough
				default:
					assert.GreaterOrEqual(t, retried, 500)
					assert.EqualValues(t, 2, tries["bad"].Load())
					assert.Zero(t, r.Stats().Rechecks)
				}
				switch {
				case name == "its time limit":
					assert.InDelta(t, 2*time.Second, during, float64(time.Millisecond))
				case !c.hangs:
					assert.Zero(t, during, "it has ended, however that was")
				}
				failures := r.Stats().Failures
				assert.Positive(t, failures)
				healed.Store(true)
				if c.hangs {
					time.Sleep(time.Hour)
				}
				time.Sleep(30 * time.Second) // the time limit once more, and a rest
				for key, n := range tries {
					assert.Greater(t, n.Load(), int64(2), key)
				}
				assert.Positive(t, r.Stats().Rechecks)
				assert.Zero(t, r.Stats().Reading)
				cancel()
				waits.Wait()
				stop()
				assert.Contains(t, log.String(), c.record)
				require.NoError(t, p.Close())
			})
		})
	}
}

// A bulk read has at most 1000 keys, and each key is read once.
func TestABulkReadHasItsBound(t *testing.T) {
	for n, want := range map[int][]int{999: {999}, 1000: {1000}, 1001: {1000, 1}, 2000: {1000, 1000}} {
		synctest.Test(t, func(t *testing.T) {
			p := open(t)
			var sizes []int
			read := map[string]int{}
			r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithResync(func(_ context.Context, keys []string) error {
				sizes = append(sizes, len(keys))
				for _, key := range keys {
					read[key]++
				}
				return nil
			}))
			require.NoError(t, err)
			for i := range n {
				_, err := p.StartWait(time.Hour, func() bool { return false }, fmt.Sprint(i))
				require.NoError(t, err)
			}
			stop := runIn(t, r, script(stands))
			time.Sleep(time.Minute)
			stop() // so that no read runs beside what follows
			assert.Equal(t, want, sizes)
			assert.Len(t, read, n)
			require.NoError(t, p.Close())
		})
	}
}
