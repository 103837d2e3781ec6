package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// What goes to the logger and to the panic handler, and that neither holds up anybody.

const recordsPerSecond = 10 // of each event, as the doc of the events says

// panicking submits an operation that panics in its first try.
func panicking(t *testing.T, p *stringPurgatory) {
	t.Helper()
	o := &op{}
	o.try = func() bool {
		if o.tries.Load() == 1 {
			panic("no")
		}
		return false
	}
	submit(t, p, o, hour, "a")
}

func TestCloseLogsTheNumberOfEachOutcome(t *testing.T) {
	log := &records{}
	p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
	probed(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	for key, n := range map[string]int{"a": 2, "forced": 3, "cancelled": 4, "met": 5} { // no two are equal
		for range n {
			o := probed(t, p, time.Second, key)
			o.ready = key == "met"
			assert.Equal(t, key == "forced", key == "forced" && p.ForceComplete(o))
		}
	}
	assert.Equal(t, []int{4, 5}, []int{p.CancelForKey("cancelled", nil), p.CheckAndComplete("met")})
	require.ErrorIs(t, p.Shutdown(over(t)), context.Canceled)
	require.NoError(t, p.Shutdown(t.Context()))
	got := log.find(purgatory.EventClosed)
	require.Len(t, got, 1, "once")
	for attr, n := range map[string]int64{"closed": 2, "left": 0, "satisfied": 5, "forced": 3, "expired": 1, "cancelled": 4} {
		assert.EqualValues(t, n, got[0][attr], attr)
	}
	assert.Equal(t, []any{slog.LevelInfo, "test"}, []any{got[0]["level"], got[0]["purgatory"]})
}

// Ten records of an event are logged in a second, and those of another one do not count. The first record of a later second says how
// many were left out, and no other record does.
func TestWhatWasSuppressedIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
		panicked := func(n int) (suppressed []any) {
			before := len(log.find(purgatory.EventPanic))
			for range n {
				panicking(t, p)
			}
			synctest.Wait()
			for _, r := range log.find(purgatory.EventPanic)[before:] {
				suppressed = append(suppressed, r["suppressed"])
			}
			return suppressed
		}
		assert.Equal(t, make([]any, recordsPerSecond), panicked(18))
		time.Sleep(900 * time.Millisecond)
		assert.Empty(t, panicked(1))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, append([]any{int64(9)}, make([]any, recordsPerSecond-1)...), panicked(12))
		require.NoError(t, p.Close())
		synctest.Wait()
		require.Len(t, log.find(purgatory.EventClosed), 1)
		assert.NotContains(t, log.find(purgatory.EventClosed)[0], "suppressed")
		assert.EqualValues(t, 31, p.Stats().Panics, "those that were left out count, too")
	})
}

// While the logger or the handler blocks, 256 calls wait, and more are dropped. The records that are written say how many.
func TestABoundedNumberOfRecordsWaits(t *testing.T) {
	const waiting = 256
	for _, handled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log, leave := &records{}, make(chan struct{})
			var told atomic.Int64
			opts := []purgatory.Option{purgatory.WithLogger(slog.New(log))}
			if handled {
				opts = append(opts, purgatory.WithPanicHandler(func(any, []byte) { told.Add(1); <-leave }))
			} else {
				opts[0] = purgatory.WithLogger(slog.New(blocking{log, leave}))
			}
			p := onManualClock[string](t, opts...)
			for range 30 {
				time.Sleep(time.Second)
				for range recordsPerSecond {
					panicking(t, p)
				}
			}
			close(leave)
			synctest.Wait()
			panicking(t, p) // one too many in this second
			time.Sleep(time.Second)
			panicking(t, p)
			synctest.Wait()
			assert.EqualValues(t, 302, p.Stats().Panics)
			found := log.find(purgatory.EventPanic)
			require.Len(t, found, 1+waiting+1)
			said := int64(0)
			for _, r := range found {
				n, _ := r["suppressed"].(int64)
				said += n
			}
			assert.EqualValues(t, 300-1-waiting+1, said)
			if handled {
				assert.EqualValues(t, 1+waiting+2, told.Load())
			}
			require.NoError(t, p.Close())
		})
	}
}

// blocking passes records on when leave is closed.
type blocking struct {
	*records
	leave chan struct{}
}

func (b blocking) Handle(ctx context.Context, rec slog.Record) error {
	<-b.leave
	return b.records.Handle(ctx, rec)
}

// A sink that never returns holds up no verb, no driver of the clock, no worker, neither Close nor, for longer than a second, Shutdown.
func TestASinkThatNeverReturnsHoldsUpNobody(t *testing.T) {
	for _, sink := range []string{"logger", "handler", "slog's default"} {
		t.Run(sink, func(t *testing.T) {
			defer slog.SetDefault(slog.Default())
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				var opts []purgatory.Option
				switch log := slog.New(blocking{&records{}, leave}); sink {
				case "logger":
					opts = append(opts, purgatory.WithLogger(log))
				case "handler":
					opts = append(opts, purgatory.WithPanicHandler(func(any, []byte) { <-leave }), purgatory.WithLogger(slog.New(&records{})))
				default:
					slog.SetDefault(log)
				}
				p := open[string](t, append(opts, purgatory.WithWorkers(1))...)
				never := func() bool { return false }
				begun := time.Now()
				for _, method := range []string{"try", "complete", "expire"} {
					bad := func() { panic("of the user's " + method) }
					o := &op{}
					switch method {
					case "try":
						o.try = func() bool {
							if o.tries.Load() > 2 {
								bad()
							}
							return false
						}
					case "complete":
						o.complete = bad
					case "expire":
						o.expire = bad
					}
					submit(t, p, o, time.Millisecond, "a") // expires, and is unchecked
					p.CheckAndComplete("a")
					p.Signal("a")
				}
				require.NoError(t, p.Await(t.Context(), hour, func() bool { return true }, "a"))
				p.CancelForKey("b", nil)
				p.Inspect(9)
				p.Stats()
				assert.Zero(t, time.Since(begun), "of the bubble's time")
				require.ErrorIs(t, p.Await(t.Context(), time.Second, never, "b"), purgatory.ErrExpired)
				assert.LessOrEqual(t, time.Since(begun), time.Second+time.Millisecond, "the clock goes on, and so does its worker")
				assert.GreaterOrEqual(t, p.Stats().Panics, int64(3))
				assert.EqualValues(t, 4, p.Stats().Expired)
				waits := submitted(t, p, "b")
				begun = time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, p.Close())
				ended(t, waits, operation.Closed)
				assert.Zero(t, time.Since(begun))
				require.NoError(t, p.Shutdown(ctx), "everybody has an answer")
				assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
				close(leave)
			})
		})
	}
}

// Each verb with a sink that never returns: it returns at once, and what it ends has its answer. What it ends, or tries, panics, and so
// has a record.
func TestNoVerbWaitsForASink(t *testing.T) {
	no := func() bool { panic("of the user's") }
	awaits := func(t *testing.T, p *stringPurgatory, await func(ready func() bool) error) {
		tries := 0
		wait := inBackground(func() {
			require.ErrorIs(t, await(func() bool { tries++; return tries > 1 && no() }), purgatory.ErrExpired)
		})
		synctest.Wait()
		p.AdvanceClock(time.Second)
		wait()
	}
	verbs := map[string]func(t *testing.T, p *stringPurgatory, o *op){
		"TryCompleteElseWatch": func(t *testing.T, p *stringPurgatory, _ *op) { submit(t, p, &op{try: no}, hour, "a") },
		"TryCompleteElseWatchAt": func(t *testing.T, p *stringPurgatory, _ *op) {
			_, err := p.TryCompleteElseWatchAt(&op{try: no}, hour, purgatory.KeyPosition[string]{Key: "a", Position: 7})
			require.NoError(t, err)
		},
		"Await": func(t *testing.T, p *stringPurgatory, _ *op) {
			awaits(t, p, func(ready func() bool) error { return p.Await(t.Context(), time.Second, ready, "a") })
		},
		"AwaitAt": func(t *testing.T, p *stringPurgatory, _ *op) {
			awaits(t, p, func(ready func() bool) error {
				return p.AwaitAt(t.Context(), time.Second, ready, purgatory.KeyPosition[string]{Key: "a", Position: 7})
			})
		},
		"StartWait": func(t *testing.T, p *stringPurgatory, _ *op) {
			w, err := p.StartWait(hour, no, "a")
			require.NoError(t, err)
			require.True(t, w.Stop())
		},
		"CheckAndComplete":     func(_ *testing.T, p *stringPurgatory, _ *op) { p.CheckAndComplete("a") },
		"CheckAndCompleteUpTo": func(_ *testing.T, p *stringPurgatory, _ *op) { p.CheckAndCompleteUpTo("a", 7) },
		"Signal":               func(_ *testing.T, p *stringPurgatory, _ *op) { p.Signal("a"); synctest.Wait() },
		"SignalUpTo":           func(_ *testing.T, p *stringPurgatory, _ *op) { p.SignalUpTo("a", 7); synctest.Wait() },
		"ForceComplete":        func(t *testing.T, p *stringPurgatory, o *op) { assert.True(t, p.ForceComplete(o)) },
		"Cancel":               func(t *testing.T, p *stringPurgatory, o *op) { assert.True(t, p.Cancel(o, nil)) },
		"CancelForKey":         func(t *testing.T, p *stringPurgatory, _ *op) { assert.Equal(t, 2, p.CancelForKey("a", nil)) },
		"Extend":               func(t *testing.T, p *stringPurgatory, o *op) { assert.True(t, p.Extend(o, hour)) },
		"AdvanceClock":         func(t *testing.T, p *stringPurgatory, _ *op) { assert.True(t, p.AdvanceClock(hour)) },
		"Close":                func(t *testing.T, p *stringPurgatory, _ *op) { assert.NoError(t, p.Close()) },
		"Shutdown": func(t *testing.T, p *stringPurgatory, _ *op) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			answered := make(chan error, 1)
			begun := time.Now()
			go func() {
				answered <- p.Await(t.Context(), hour, func() bool { return false }, "b")
				assert.LessOrEqual(t, time.Since(begun), 250*time.Millisecond, "its waiter has an answer")
			}()
			synctest.Wait()
			require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
			require.ErrorIs(t, <-answered, purgatory.ErrClosed)
			assert.LessOrEqual(t, time.Since(begun), 1250*time.Millisecond)
		},
		"Inspect": func(_ *testing.T, p *stringPurgatory, _ *op) { p.Inspect(9) },
		"Stats":   func(_ *testing.T, p *stringPurgatory, _ *op) { p.Stats() },
		"Keys":    func(t *testing.T, p *stringPurgatory, _ *op) { assert.Len(t, slices.Collect(p.Keys()), 1) },
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				defer close(leave)
				p := onManualClock[string](t, purgatory.WithLogger(slog.New(blocking{&records{}, leave})))
				panicking(t, p)
				synctest.Wait() // the sink has it
				o := &op{complete: func() { panic("of the user's") }}
				o.try = func() bool { return o.tries.Load() > 2 }
				_, err := p.TryCompleteElseWatchAt(o, time.Second, purgatory.KeyPosition[string]{Key: "a", Position: 7})
				require.NoError(t, err)
				before, begun := p.Stats().Panics, time.Now()
				verb(t, p, o)
				if name != "Shutdown" {
					assert.Zero(t, time.Since(begun), "of the bubble's time")
				}
				switch name {
				case "Extend", "Inspect", "Stats", "Keys", "TryCompleteElseWatch", "TryCompleteElseWatchAt", "Await", "AwaitAt", "StartWait":
				default:
					assert.EqualValues(t, 1, o.completed.Load())
					assert.Greater(t, p.Stats().Panics, before)
				}
				require.NoError(t, p.Close())
			})
		})
	}
}

// A program ends after Shutdown. What a slow sink has not taken by then would be lost.
func TestShutdownWaitsForItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, leave := &records{}, make(chan struct{})
		p := open[string](t, purgatory.WithLogger(slog.New(blocking{log, leave})))
		time.AfterFunc(900*time.Millisecond, func() { close(leave) })
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Len(t, log.find(purgatory.EventClosed), 1)
	})
}

// A panic that the logger does not log, or fails to log, goes to the handler, or else to slog's default logger. Neither stops what comes
// after it, and the reaper goes on.
func TestAPanicThatTheLoggerDoesNotLogIsNotLost(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	for name, c := range map[string]struct {
		logger slog.Handler
		lost   int
	}{
		"panics": {onEvent(func(string) { panic("of the logger's") }), 2},
		"Goexit": {onEvent(func(string) { runtime.Goexit() }), 2},
		"works":  {&records{}, 0},
		"off":    {slog.DiscardHandler, 2},
		"none":   {nil, 2},
	} {
		for _, handled := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", handled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					standard := &records{}
					slog.SetDefault(slog.New(standard))
					var opts []purgatory.Option
					if c.logger != nil {
						opts = append(opts, purgatory.WithLogger(slog.New(c.logger)))
					}
					var told []any
					if handled {
						c.lost = 0
						opts = append(opts, purgatory.WithPanicHandler(func(v any, stack []byte) {
							assert.Contains(t, string(stack), "panicking")
							told = append(told, v)
						}))
					}
					p := open[string](t, opts...)
					panicking(t, p)
					panicking(t, p)
					submit(t, p, &op{}, time.Second, "unchecked")
					time.Sleep(2 * time.Second)
					synctest.Wait()
					found := standard.find(purgatory.EventPanic)
					assert.Len(t, found, c.lost)
					for _, r := range found {
						assert.Equal(t, []any{"test", "no"}, []any{r["purgatory"], r["panic"]})
						assert.Contains(t, r["stack"], "panicking")
					}
					assert.Equal(t, map[bool][]any{true: {"no", "no"}}[handled], told)
					assert.EqualValues(t, 1, p.Stats().Expired)
					require.NoError(t, p.Shutdown(t.Context()))
				})
			})
		}
	}
}

// stuck panics in one of its methods.
type stuck struct {
	operation.DelayedOperation
	fail string
	met  bool // its condition
}

func (s *stuck) TryComplete() bool { s.maybe("TryComplete"); return s.met }
func (s *stuck) OnComplete()       { s.maybe("OnComplete") }
func (s *stuck) OnExpiration()     { s.maybe("OnExpiration") }

func (s *stuck) maybe(method string) {
	if s.fail == method {
		panic(errors.New("of the user's"))
	}
}

// The record of a panic names the type of the operation, the method, and the key: the one that was checked, or the operation's first.
func TestPanicsNameTheOperationTheMethodAndTheKey(t *testing.T) {
	check := func(p *stringPurgatory, o *stuck) { o.met = true; p.CheckAndComplete("b") }
	for name, c := range map[string]struct {
		end            func(p *stringPurgatory, o *stuck)
		method, key    string
		either, worker bool
	}{
		"first try":      {nil, "TryComplete", "a", false, false},
		"met at once":    {nil, "OnComplete", "a", false, false},
		"a check's try":  {check, "TryComplete", "b", false, false},
		"a check":        {check, "OnComplete", "b", false, false},
		"a signal":       {func(p *stringPurgatory, o *stuck) { o.met = true; p.Signal("b") }, "OnComplete", "b", false, true},
		"a key's cancel": {func(p *stringPurgatory, _ *stuck) { p.CancelForKey("b", nil) }, "OnComplete", "b", false, false},
		"force":          {func(p *stringPurgatory, o *stuck) { p.ForceComplete(o) }, "OnComplete", "a", false, false},
		"force, deep":    {func(p *stringPurgatory, o *stuck) { nested(500, func() { p.ForceComplete(o) }) }, "OnComplete", "a", false, true},
		"its timeout":    {func(p *stringPurgatory, _ *stuck) { p.AdvanceClock(time.Minute) }, "OnComplete", "a", false, false},
		"and expiration": {func(p *stringPurgatory, _ *stuck) { p.AdvanceClock(time.Minute) }, "OnExpiration", "a", false, false},
		"Close":          {func(p *stringPurgatory, _ *stuck) { p.Close() }, "OnComplete", "a", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log records
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(&log)))
			o := &stuck{met: name == "met at once"}
			if c.end == nil {
				o.fail = c.method
			}
			_, err := p.TryCompleteElseWatch(o, time.Second, "a", "b")
			require.NoError(t, err)
			if c.end != nil {
				o.fail = c.method
				c.end(p, o)
				if c.worker {
					eventually(t, func() bool { return p.Stats().Panics == 1 }, "the worker")
				}
			} else {
				eventually(t, p.AtRest, "a worker makes the second try")
			}
			_ = p.Shutdown(over(t))
			found := log.find(purgatory.EventPanic)
			require.NotEmpty(t, found)
			r := found[0]
			assert.Equal(t, []any{slog.LevelError, "test", "*purgatory_test.stuck", c.method, "of the user's"},
				[]any{r["level"], r["purgatory"], r["operation"], r["callback"], r["panic"]})
			if !c.either || r["key"] != "b" {
				assert.Equal(t, c.key, r["key"])
			}
			assert.Contains(t, r["stack"], "maybe")
		})
	}
}

// nested calls f on a stack of that many frames more.
func nested(frames int, f func()) {
	if frames > 0 {
		nested(frames-1, f)
		return
	}
	f()
}

// keyed waits under its key. Its OnComplete panics with it, or ends its goroutine.
type keyed struct {
	operation.DelayedOperation
	n   int
	key string
}

func (*keyed) TryComplete() bool { return false }
func (*keyed) OnExpiration()     {}

func (k *keyed) OnComplete() {
	if k.n%10 == 0 {
		runtime.Goexit()
	}
	if k.n%3 == 0 {
		panic(k.key)
	}
}

// Operations that wait for different keys end together. Each record names the key of its own
// operation, on whichever goroutine the callback runs, whatever the callbacks before it did.
func TestRecordsOfABatchNameEachOperationsKey(t *testing.T) {
	ended := over(t)
	for name, way := range map[string]func(p *stringPurgatory){
		"Close":           func(p *stringPurgatory) { _ = p.Close() },
		"Close, and deep": func(p *stringPurgatory) { nested(500, func() { _ = p.Close() }) },
		"Shutdown":        func(p *stringPurgatory) { _ = p.Shutdown(ended) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const many = 200
				var log records
				p := open[string](t, purgatory.WithLogger(slog.New(&log)), purgatory.WithWatcherShards(1))
				for n := range many {
					key := fmt.Sprint("key ", n)
					_, err := p.TryCompleteElseWatch(&keyed{n: n, key: key}, time.Hour, key)
					require.NoError(t, err)
				}
				inBackground(func() { way(p) })()
				synctest.Wait()
				assert.EqualValues(t, (many+2)/3-(many+29)/30, p.Stats().Panics)
				found := log.find(purgatory.EventPanic)
				require.Len(t, found, recordsPerSecond)
				for _, r := range found {
					assert.Equal(t, r["panic"], r["key"])
				}
				require.NoError(t, p.Shutdown(t.Context()))
			})
		})
	}
}

// A panic whose value is an operation is logged without reading the operation, which other
// goroutines may be writing to. The race detector sees it.
func TestAPanicWithAnOperationReadsNoneOfIt(t *testing.T) {
	var log records
	p := onManualClock[string](t, purgatory.WithLogger(slog.New(&log)))
	other := &op{}
	submit(t, p, other, time.Hour, "a")
	var all sync.WaitGroup
	all.Go(func() {
		for range 100 {
			p.Extend(other, time.Hour)
			p.CheckAndComplete("a")
		}
	})
	for range 100 {
		p.ForceComplete(&op{complete: func() { panic(other) }}) // not submitted
		thrower := &op{complete: func() { panic(other) }}
		submit(t, p, thrower, time.Hour, "b")
		p.ForceComplete(thrower)
	}
	all.Wait()
	assert.EqualValues(t, 100, p.Stats().Panics)
	eventually(t, func() bool { return len(log.find(purgatory.EventPanic)) >= recordsPerSecond }, "the records")
}

// A stall is counted; a turn of the reaper that is late by less is none.
func TestAStallIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		for interval, longest := range map[time.Duration]time.Duration{ms: 101 * ms, 60 * ms: 160 * ms, 200 * ms: 400 * ms, time.Second: 2 * time.Second} {
			p := onManualClock[string](t, purgatory.WithReapInterval(interval))
			turn := p.Reap()
			for i, gap := range []time.Duration{interval, longest, longest + 1, time.Minute, 0} {
				time.Sleep(gap)
				turn()
				assert.EqualValues(t, min(max(i-1, 0), 2), p.Stats().ReaperStalls, "after %v of %v", gap, interval)
			}
		}
		p := onManualClock[string](t, purgatory.WithReapInterval(math.MaxInt64))
		p.Reap()()
		assert.Zero(t, p.Stats().ReaperStalls)
	})
}
