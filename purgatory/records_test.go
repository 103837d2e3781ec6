package purgatory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

const recordsPerSecond = 10 // of each event, as the doc of the events says

// slow takes its time in every method.
type slow struct {
	operation.DelayedOperation
	try, complete, expire time.Duration
}

func (s *slow) TryComplete() bool { time.Sleep(s.try); return false }
func (s *slow) OnComplete()       { time.Sleep(s.complete) }
func (s *slow) OnExpiration()     { time.Sleep(s.expire) }

func TestSlowCallbacksAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p, err := purgatory.New[string]("slow", purgatory.WithLogger(slog.New(log)), purgatory.WithSlowCallback(50*time.Millisecond))
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Shutdown(t.Context())) }()
		_, err = p.TryCompleteElseWatch(&slow{try: time.Second, expire: 60 * time.Millisecond, complete: 40 * time.Millisecond}, 5*time.Second, "a")
		require.NoError(t, err)
		p.CheckAndComplete("a")
		time.Sleep(10 * time.Second)
		got := log.find(purgatory.EventSlow)
		require.Len(t, got, 2, "OnComplete was fast enough")
		assert.Equal(t, map[string]any{
			"level": slog.LevelWarn, "purgatory": "slow", "operation": "*purgatory_test.slow",
			"callback": "TryComplete", "key": "a", "elapsed": time.Second, "age": 2 * time.Second, "outcome": "pending",
		}, got[0])
		assert.Equal(t, "OnExpiration", got[1]["callback"])
		assert.Equal(t, "expired", got[1]["outcome"])
	})
}

func TestACallbackIsSlowAboveTheThreshold(t *testing.T) {
	for threshold, logged := range map[time.Duration]int{0: 0, time.Second: 0, time.Second - 1: 1} {
		synctest.Test(t, func(t *testing.T) {
			log := &records{}
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)), purgatory.WithSlowCallback(threshold))
			told := 0
			_, err := p.TryCompleteElseWatch(&op{complete: func() { told++; time.Sleep(time.Second) }}, time.Hour, "a")
			require.NoError(t, err)
			p.CheckAndComplete("a")
			assert.Equal(t, 1, p.CancelForKey("a", nil))
			assert.Equal(t, 1, told)
			_, err = p.TryCompleteElseWatch(&slow{expire: time.Second}, time.Minute, "a")
			require.NoError(t, err)
			p.AdvanceClock(time.Hour)
			_, err = p.TryCompleteElseWatch(&slow{try: time.Second}, time.Hour, "a")
			require.NoError(t, err)
			p.CheckAndComplete("a")
			assert.Len(t, log.find(purgatory.EventSlow), 3*logged)
		})
	}
}

// TestAStalledReaperIsLogged drives the reaper's work by hand: a stall is a gap between two rounds.
func TestAStalledReaperIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
		round := p.Reap()
		time.Sleep(400 * time.Millisecond)
		round()
		assert.Empty(t, log.find(purgatory.EventStalled))
		time.Sleep(time.Second)
		round()
		synctest.Wait()
		got := log.find(purgatory.EventStalled)
		require.Len(t, got, 1)
		assert.Equal(t, time.Second, got[0]["elapsed"])
		assert.Equal(t, 200*time.Millisecond, got[0]["interval"])

		p = onManualClock[string](t, purgatory.WithLogger(slog.New(log)), purgatory.WithReapInterval(math.MaxInt64))
		round = p.Reap()
		time.Sleep(time.Hour)
		round()
		synctest.Wait()
		assert.Len(t, log.find(purgatory.EventStalled), 1, "no gap is longer than planned")
	})
}

// A logger that blocks when it is told of a stall does not keep the reaper's rounds. Shutdown waits
// for it, though the reaper has ended.
func TestALoggerThatBlocksStopsNoSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged atomic.Bool
		p := onManualClock[string](t, on(purgatory.EventStalled, func() {
			time.Sleep(time.Minute)
			logged.Store(true)
		}))
		round := p.Reap()
		time.Sleep(time.Second)
		begun := time.Now()
		round()
		round()
		assert.Zero(t, time.Since(begun))
		assert.False(t, logged.Load())
		require.NoError(t, p.Shutdown(t.Context()))
		assert.True(t, logged.Load(), "Shutdown has returned before")
	})
}

// A logger that panics when it is told of a stall does not end the reaper's rounds.
func TestALoggerThatPanicsOfAStallStopsNoSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { told.Add(1) }),
			on(purgatory.EventStalled, func() { panic("of the logger's") }))
		round := p.Reap()
		for n := range int64(3) {
			time.Sleep(time.Second)
			round()
			synctest.Wait()
			assert.Equal(t, n+1, told.Load())
		}
	})
}

// A sweep that has purged says how many entries, also if it has found nothing else; one that has not says nothing.
func TestAPurgeIsLoggedWithItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := onManualClock[int](t, purgatory.WithLogger(slog.New(log)))
		other := 1
		for p.Watchers().Shard(p.Watchers().Hash(other)) == p.Watchers().Shard(p.Watchers().Hash(0)) {
			other++
		}
		var all []*op
		for range 6 {
			all = append(all, submitted(t, p, other, 0))
		}
		sweep := func() { p.Sweep(0); synctest.Wait() }
		sweep()
		assert.Empty(t, log.all, "nothing was left")
		for _, n := range []int{1, 3} {
			before := p.Stats().Purged
			p.LeaveStale(0, func() {
				for _, o := range all[:n] {
					require.True(t, p.ForceComplete(o))
				}
			})
			all = all[n:]
			require.Equal(t, n, p.Watchers().Stale())
			sweep()
			assert.EqualValues(t, n, p.Stats().Purged-before)
			assert.Equal(t, 2*len(all), p.Watched())
			sweep()
			require.Len(t, log.all, 1, "and nothing else is logged")
			assert.Equal(t, []map[string]any{{"level": slog.LevelDebug, "purgatory": "test", "entries": int64(n)}}, log.find(purgatory.EventPurged))
			log.all = nil
		}
		p.Sweep(time.Minute)
		synctest.Wait()
		assert.Empty(t, log.find(purgatory.EventPurged), "a stall is no purge")
	})
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
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Shutdown(ctx), context.Canceled)
	require.NoError(t, p.Shutdown(t.Context()))
	require.NoError(t, p.Shutdown(t.Context()))
	require.Len(t, log.find(purgatory.EventShutdown), 1, "said once")
	assert.EqualValues(t, 2, log.find(purgatory.EventShutdown)[0]["pending"])
	got := log.find(purgatory.EventClosed)
	require.Len(t, got, 1)
	for attr, n := range map[string]int64{"closed": 2, "left": 0, "satisfied": 5, "forced": 3, "expired": 1, "cancelled": 4} {
		assert.EqualValues(t, n, got[0][attr], attr)
	}
}

func TestTracesHaveRegionsOfChecksAndCallbacks(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the tests are being traced already")
	}
	var out bytes.Buffer
	require.NoError(t, trace.Start(&out))
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string]("name of the traced", purgatory.WithTimer(clock))
	require.NoError(t, err)
	defer p.Close()
	told := 0
	_, err = p.TryCompleteElseWatch(&op{complete: func() { told++ }}, time.Second, "a")
	require.NoError(t, err)
	assert.Equal(t, 1, p.CancelForKey("a", nil))
	trace.Stop()
	assert.Equal(t, 1, told)
	assert.Contains(t, out.String(), purgatory.RegionCheck)
	assert.Contains(t, out.String(), purgatory.RegionCallbacks)
	assert.Contains(t, out.String(), "name of the traced")
}

// Each event has its own ten records a second.
func TestRecordsOfOneEventSuppressNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
		for range 30 {
			_, err := p.TryCompleteElseWatch(&op{try: func() bool { panic("no") }}, time.Second, "a")
			require.NoError(t, err)
		}
		assert.Len(t, log.find(purgatory.EventPanic), 10)
		require.NoError(t, p.Close())
		require.Len(t, log.find(purgatory.EventClosed), 1)
		assert.NotContains(t, log.find(purgatory.EventClosed)[0], "suppressed")
	})
}

// Ten records of an event are logged in a second. The first record of a later second says how many
// were left out, and no other record does.
func TestWhatWasSuppressedIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
		panicked := func(n int) (suppressed []any) { // 2n panics: each operation is tried twice
			before := len(log.find(purgatory.EventPanic))
			for range n {
				_, err := p.TryCompleteElseWatch(&op{try: func() bool { panic("no") }}, time.Second, "a")
				require.NoError(t, err)
			}
			for _, r := range log.find(purgatory.EventPanic)[before:] {
				suppressed = append(suppressed, r["suppressed"])
			}
			return suppressed
		}
		assert.Equal(t, make([]any, 10), panicked(8))
		time.Sleep(900 * time.Millisecond)
		assert.Empty(t, panicked(1))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, append([]any{int64(8)}, make([]any, 9)...), panicked(6))
		time.Sleep(time.Second)
		assert.Equal(t, []any{int64(2), nil}, panicked(1))
		time.Sleep(time.Second)
		assert.Equal(t, make([]any, 2), panicked(1))
		assert.EqualValues(t, 34, p.Stats().Panics, "those that were left out count, too")
	})
}

// A panic that the logger cannot be told of goes to slog's default logger, unless a handler has it.
// One that the logger was told of does not.
func TestAPanicThatTheLoggerFailsToLogIsNotLost(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	failing := onEvent(func(string) { panic("of the logger's") })
	for name, c := range map[string]struct {
		logger  slog.Handler
		handled bool
		lost    int
	}{
		"a failing logger":                {failing, false, 2},
		"a failing logger and a handler":  {failing, true, 0},
		"a logger":                        {&records{}, false, 0},
		"a logger and a handler":          {&records{}, true, 0},
		"a logger that logs none of them": {slog.DiscardHandler, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			standard := &records{}
			slog.SetDefault(slog.New(standard))
			opts := []purgatory.Option{purgatory.WithLogger(slog.New(c.logger))}
			handled := 0
			if c.handled {
				opts = append(opts, purgatory.WithPanicHandler(func(any, []byte) { handled++ }))
			}
			p := onManualClock[string](t, opts...)
			_, err := p.TryCompleteElseWatch(&op{try: func() bool { panic("no") }}, time.Second, "a")
			require.NoError(t, err)
			got := standard.find(purgatory.EventPanic)
			assert.Len(t, got, c.lost)
			for _, r := range got {
				assert.Equal(t, "no", r["panic"])
			}
			assert.Equal(t, map[bool]int{true: 2}[c.handled], handled)
		})
	}
}

// A stall is counted and logged; a turn that is late by less is none.
func TestAStallIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		for interval, longest := range map[time.Duration]time.Duration{ms: 101 * ms, 60 * ms: 160 * ms, 200 * ms: 400 * ms, time.Second: 2 * time.Second} {
			log := &records{}
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)), purgatory.WithReapInterval(interval))
			turn := p.Reap()
			for i, gap := range []time.Duration{interval, longest, longest + 1, time.Minute, 0} {
				time.Sleep(gap)
				turn()
				synctest.Wait()
				want := min(max(i-1, 0), 2)
				assert.EqualValues(t, want, p.Stats().ReaperStalls, "after %v of %v", gap, interval)
				assert.Len(t, log.all, want, "and nothing else is logged")
			}
		}
	})
}

// stuck blocks in OnComplete until it is let go.
type stuck struct {
	operation.DelayedOperation
	leave chan struct{}
	fail  string // the method that panics
	met   bool   // its condition
}

func (s *stuck) TryComplete() bool { s.maybe("TryComplete"); return s.met }

func (s *stuck) OnComplete() {
	s.maybe("OnComplete")
	if s.leave != nil {
		<-s.leave
	}
}

func (s *stuck) OnExpiration()  { s.maybe("OnExpiration") }
func (s *stuck) String() string { s.maybe("String"); return "produce of client 7" }

func (s *stuck) maybe(method string) {
	if s.fail == method {
		panic("of the user's")
	}
}

func TestPanicsNameTheOperationAndTheCallback(t *testing.T) {
	for _, method := range []string{"TryComplete", "OnComplete", "OnExpiration"} {
		var log records
		p := onManualClock[string](t, purgatory.WithLogger(slog.New(&log)))
		_, err := p.TryCompleteElseWatch(&stuck{fail: method}, time.Second, "a")
		require.NoError(t, err)
		p.AdvanceClock(time.Minute)
		found := log.find(purgatory.EventPanic)
		times := 1
		if method == "TryComplete" {
			times = 2 // before the operation is watched, and afterwards
		}
		require.Len(t, found, times, method)
		assert.Equal(t, "test", found[0]["purgatory"])
		assert.Equal(t, "produce of client 7", found[0]["operation"])
		assert.Equal(t, method, found[0]["callback"])
		assert.Equal(t, map[bool]time.Duration{true: 0, false: time.Second}[method == "TryComplete"], found[0]["age"])
		assert.Equal(t, "of the user's", found[0]["panic"])
		assert.Contains(t, found[0]["stack"], "maybe")
	}
}

// Without a logger and a handler a panic goes to slog's default logger, as the
// documented event.
func TestPanicsWithoutALoggerGoToSlogsDefault(t *testing.T) {
	var log records
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(&log))
	p := onManualClock[string](t)
	_, err := p.TryCompleteElseWatch(&stuck{fail: "OnComplete"}, 0, "a")
	require.NoError(t, err)
	p.AdvanceClock(0)
	require.Len(t, log.find(purgatory.EventPanic), 1)
	assert.Equal(t, "test", log.find(purgatory.EventPanic)[0]["purgatory"])
	assert.Contains(t, log.find(purgatory.EventPanic)[0]["stack"], "maybe")
}

// An operation that was refused has not begun to wait: the record of a panic gives it no age.
func TestARefusedOperationHasNoAge(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	clock.AdvanceClock(time.Hour)
	var log records
	var all [2]*purgatory.DelayedOperationPurgatory[string]
	for i := range all {
		all[i], err = purgatory.New[string]("test", purgatory.WithTimer(clock), purgatory.WithLogger(slog.New(&log)))
		require.NoError(t, err)
		defer all[i].Close()
	}
	op := &probe{while: func() { all[0].Close() }}
	_, err = all[0].TryCompleteElseWatch(op, time.Hour, "a")
	require.ErrorIs(t, err, purgatory.ErrClosed)
	clock.AdvanceClock(time.Minute)
	op.while = func() { panic("of the user's") }
	_, err = all[1].TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	found := log.find(purgatory.EventPanic)
	require.NotEmpty(t, found)
	assert.Equal(t, time.Duration(0), found[0]["age"])
}

// A String that panics while a panic is reported loses nothing.
func TestAPanicInStringLosesNoPanicReport(t *testing.T) {
	var log records
	p := onManualClock[string](t, purgatory.WithLogger(slog.New(&log)), purgatory.WithSlowCallback(1))
	op := &speechless{}
	_, err := p.TryCompleteElseWatch(op, time.Second, "a")
	require.NoError(t, err)
	p.AdvanceClock(time.Minute)
	assert.Equal(t, operation.Expired, op.Outcome())
	callbacks := map[any]any{} // the panic of each
	for _, record := range log.find(purgatory.EventPanic) {
		assert.Equal(t, "*purgatory_test.speechless", record["operation"])
		callbacks[record["callback"]] = record["panic"]
	}
	assert.Equal(t, map[any]any{"OnComplete": "broken", "String": "broken, too"}, callbacks)
}

// Writing a record about a callback neither undoes what the callback has found out nor keeps
// a panic from the handler, even if String or the logger panics or calls runtime.Goexit.
func TestARecordUndoesNothing(t *testing.T) {
	unwind := map[string]func(){"panic": func() { panic("of the text") }, "Goexit": runtime.Goexit}
	for name, unwind := range unwind {
		t.Run("String/"+name, func(t *testing.T) {
			var told []any
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(&records{})), purgatory.WithSlowCallback(1),
				purgatory.WithPanicHandler(func(v any, _ []byte) { told = append(told, v) }))
			op := &unwinder{text: unwind}
			_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
			require.NoError(t, err)
			op.met = true
			assert.Equal(t, 1, p.CheckAndComplete("a"))
			assert.Equal(t, operation.Satisfied, op.Outcome())
			assert.Contains(t, told, "of OnComplete")
		})
		t.Run("logger/"+name, func(t *testing.T) {
			var told []any
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(onEvent(func(string) { unwind() }))),
				purgatory.WithPanicHandler(func(v any, _ []byte) { told = append(told, v) }))
			op := &unwinder{}
			_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
			require.NoError(t, err)
			p.ForceComplete(op)
			assert.Equal(t, []any{"of OnComplete"}, told)
			assert.EqualValues(t, 1, p.Stats().Panics)
		})
	}
}

// unwinder panics in OnComplete and runs text in String.
type unwinder struct {
	operation.DelayedOperation
	met  bool
	text func()
}

func (u *unwinder) TryComplete() bool { return u.met }
func (u *unwinder) OnComplete()       { panic("of OnComplete") }
func (u *unwinder) OnExpiration()     {}

func (u *unwinder) String() string {
	if u.text != nil {
		u.text()
	}
	return "unwinder"
}

// silent has no String method.
type silent struct{ operation.DelayedOperation }

func (*silent) TryComplete() bool { return false }
func (*silent) OnComplete()       {}
func (*silent) OnExpiration()     {}

// A panic whose value is an operation is logged without reading the operation, which other
// goroutines may be writing to. The race detector sees it.
func TestAPanicWithAnOperationReadsNoneOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := purgatory.New[string]("test", purgatory.WithLogger(slog.New(&log)))
		require.NoError(t, err)
		defer p.Close()
		other := &silent{}
		_, err = p.TryCompleteElseWatch(other, time.Hour, "a")
		require.NoError(t, err)
		var all sync.WaitGroup
		all.Go(func() {
			for range 100 {
				p.Extend(other, time.Hour)
				p.CheckAndComplete("a")
			}
		})
		for range 100 {
			thrower := probed(t, p, time.Hour, "b")
			thrower.while = func() { panic(other) }
			p.CheckAndComplete("b")
			thrower.while = nil
			p.ForceComplete(thrower)
		}
		all.Wait()
		assert.EqualValues(t, 100, p.Stats().Panics)
		assert.Len(t, log.find(purgatory.EventPanic), recordsPerSecond)
	})
}

type speechless struct{ operation.DelayedOperation }

func (*speechless) TryComplete() bool { return false }
func (*speechless) OnComplete()       { panic(errors.New("broken")) }
func (*speechless) OnExpiration()     {}
func (*speechless) String() string    { panic("broken, too") }

// The records of callbacks name the key: the one that was checked, or the operation's first.
func TestRecordsOfCallbacksNameTheKey(t *testing.T) {
	ways := map[string]struct {
		end func(p *purgatory.DelayedOperationPurgatory[string], op *stuck)
		key any
	}{
		"first try": {nil, "a"},
		"a check": {func(p *purgatory.DelayedOperationPurgatory[string], op *stuck) {
			op.met = true
			p.CheckAndComplete("b")
		}, "a"},
		"a key's cancel": {func(p *purgatory.DelayedOperationPurgatory[string], _ *stuck) { p.CancelForKey("b", nil) }, "a"},
		"force":          {func(p *purgatory.DelayedOperationPurgatory[string], op *stuck) { p.ForceComplete(op) }, "a"},
		"its timeout":    {func(p *purgatory.DelayedOperationPurgatory[string], _ *stuck) { p.AdvanceClock(time.Minute) }, "a"},
		"force, and deep": {func(p *purgatory.DelayedOperationPurgatory[string], op *stuck) {
			nest(500, func() { p.ForceComplete(op) })
		}, "a"},
		"the end of Close": {func(p *purgatory.DelayedOperationPurgatory[string], _ *stuck) { p.Close() }, "a"},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			var log records
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(&log)), purgatory.WithSlowCallback(1))
			op := &stuck{fail: "OnComplete", met: way.end == nil}
			_, err := p.TryCompleteElseWatch(op, time.Second, "a", "b")
			require.NoError(t, err)
			if way.end != nil {
				way.end(p, op)
			}
			require.NoError(t, p.Shutdown(t.Context()))
			for _, event := range []string{purgatory.EventPanic, purgatory.EventSlow} {
				found := log.find(event)
				require.NotEmpty(t, found, event)
				for _, record := range found {
					assert.Equal(t, way.key, record["key"], "%s of %s", event, record["callback"])
				}
			}
		})
	}
}

// confused waits under a key that its String method returns. Each of its methods panics, calls
// runtime.Goexit, or does neither, depending on n.
type confused struct {
	operation.DelayedOperation
	n   int
	key string
	met *atomic.Bool
}

func (c *confused) TryComplete() bool { c.act(7); return c.met.Load() }
func (c *confused) OnComplete()       { c.act(3) }
func (c *confused) OnExpiration()     {}
func (c *confused) String() string    { return c.key }

func (c *confused) act(often int) {
	switch c.n % often {
	case 1:
		panic("of the user's")
	case 2:
		if c.met.Load() {
			runtime.Goexit()
		}
	}
}

// Operations that wait for different keys end together. Each record names the key of its own
// operation, on whichever goroutine the callback runs, whatever the callbacks before it did.
func TestRecordsOfABatchNameEachOperationsKey(t *testing.T) {
	ways := map[string]func(p *purgatory.DelayedOperationPurgatory[string]){
		"Close":           func(p *purgatory.DelayedOperationPurgatory[string]) { p.Close() },
		"Close, and deep": func(p *purgatory.DelayedOperationPurgatory[string]) { nest(3900, func() { p.Close() }) },
		"Shutdown": func(p *purgatory.DelayedOperationPurgatory[string]) {
			ended, end := context.WithCancel(context.Background())
			end()
			_ = p.Shutdown(ended)
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			const many = 300 // more than two batches
			var log records
			var met atomic.Bool
			p := onManualClock[string](t, purgatory.WithLogger(slog.New(&log)), purgatory.WithSlowCallback(1), purgatory.WithWatcherShards(1))
			for n := range many {
				key := fmt.Sprint("key ", n)
				_, err := p.TryCompleteElseWatch(&confused{n: n, key: key, met: &met}, time.Hour, key, key+", too")
				require.NoError(t, err)
			}
			for _, rec := range log.find(purgatory.EventPanic) {
				require.Equal(t, rec["operation"], rec["key"])
			}
			before := len(log.find(purgatory.EventPanic))
			met.Store(true)
			done := make(chan struct{})
			go func() { // runtime.Goexit ends it
				defer close(done)
				way(p)
			}()
			<-done
			require.Eventually(t, p.AtRest, time.Minute, time.Millisecond)
			found := log.find(purgatory.EventPanic)[before:]
			if len(found) < many/3 {
				assert.GreaterOrEqual(t, before+len(found), recordsPerSecond, "the rate is limited")
			}
			for _, rec := range append(found, log.find(purgatory.EventSlow)...) {
				require.Equal(t, rec["operation"], rec["key"])
			}
		})
	}
}

// The logger is told of a slow TryComplete after that has returned true. If the logger calls
// Goexit, the verdict must stay.
func TestALoggerThatCallsGoexitUndoesNoVerdict(t *testing.T) {
	met := false
	p := onManualClock[string](t, purgatory.WithSlowCallback(1),
		on(purgatory.EventSlow, runtime.Goexit))
	o := &op{try: func() bool { time.Sleep(time.Microsecond); return met }}
	submit(t, p, o, hour, "a")
	met = true
	inBackground(func() { p.CheckAndComplete("a") })()
	assert.EqualValues(t, 1, o.completed.Load(), "its condition is met, and its TryComplete has said so")
}

// What the reaper finds is logged by another goroutine: a logger that blocks, as one does whose pipe
// is full, must not stop the clock. For [purgatory.EventStalled] see TestALoggerThatBlocksStopsNoSweep.
func TestALoggerThatBlocksStopsNoTimeout(t *testing.T) {
	for _, event := range []string{purgatory.EventDue, purgatory.EventStuck} {
		t.Run(event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told, release := make(chan struct{}, 1), make(chan struct{})
				p := open[string](t, purgatory.WithExpiryWorkers(1), purgatory.WithSlowCallback(time.Second),
					on(event, func() {
						select {
						case told <- struct{}{}:
						default:
						}
						<-release
					}))
				leave := make(chan struct{})
				for range 2 { // one blocks the worker, the other waits for it
					submit(t, p, &op{complete: func() { <-leave }}, time.Millisecond, "a")
				}
				<-told
				close(leave)
				synctest.Wait()
				begun := time.Now()
				err := p.Await(t.Context(), 50*time.Millisecond, func() bool { return false }, "b")
				assert.ErrorIs(t, err, purgatory.ErrExpired)
				assert.LessOrEqual(t, time.Since(begun), 51*time.Millisecond)
				close(release)
			})
		})
	}
}

// asking is a logger's handler whose Enabled unwinds.
type asking struct {
	slog.Handler
	armed *atomic.Bool
}

func (h asking) Enabled(context.Context, slog.Level) bool {
	if h.armed.Swap(false) {
		runtime.Goexit()
	}
	return false
}

func (h asking) WithAttrs([]slog.Attr) slog.Handler { return h }

// Close asks the logger before it closes the first shard. If that unwinds, a second Close
// must do what the first has not.
func TestALoggerThatUnwindsWhenCloseBeginsLeavesNothingPending(t *testing.T) {
	var armed atomic.Bool
	p := onManualClock[string](t, purgatory.WithLogger(slog.New(asking{slog.DiscardHandler, &armed})))
	o := submitted(t, p, "a")
	armed.Store(true)
	inBackground(func() { _ = p.Close() })()
	_ = p.Close()
	ended(t, o, operation.Closed)
}

// mute is a key that cannot be formatted.
type mute int

func (mute) String() string { runtime.Goexit(); return "" }

func TestAKeyThatCannotBeFormattedUndoesNothing(t *testing.T) {
	log := &records{}
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[mute]("test", purgatory.WithTimer(clock), purgatory.WithLogger(slog.New(log)), purgatory.WithSlowCallback(1))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	o := &op{complete: func() { time.Sleep(time.Millisecond) }}
	_, err = p.TryCompleteElseWatch(o, time.Hour, 1)
	require.NoError(t, err)
	assert.Equal(t, 1, p.CancelForKey(1, nil))
	found := log.find(purgatory.EventSlow)
	require.Len(t, found, 1)
	assert.Equal(t, "purgatory_test.mute", found[0]["key"], "its type")
}
