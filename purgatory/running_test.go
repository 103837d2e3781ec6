package purgatory

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

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

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

// A sick day: forty operations expire, and two workers are stuck in their callbacks.
func TestStuckCallbacksAreCountedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := New[string]("produce", WithExpiryWorkers(2), WithSlowCallback(20*time.Millisecond), WithStuckStacks(), WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		for range 40 {
			_, err := p.TryCompleteElseWatch(&stuck{leave: leave}, time.Second, "a")
			require.NoError(t, err)
		}
		s := p.Stats()
		assert.Zero(t, s.Running+s.Due+s.StuckCallbacks)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		s = p.Stats()
		assert.EqualValues(t, 2, s.Running)
		assert.EqualValues(t, 2, s.StuckCallbacks)
		assert.InDelta(t, 3, s.OldestRunning.Seconds(), 0.1)
		assert.EqualValues(t, 38, s.Due)
		assert.InDelta(t, 3, s.OldestDue.Seconds(), 0.1)
		assert.Zero(t, s.SlowCallbacks, "they have not returned")
		found := log.find(EventStuck)
		require.Len(t, found, 2, "once each")
		for _, rec := range found {
			assert.Equal(t, slog.LevelWarn, rec["level"])
			assert.Equal(t, "produce", rec["purgatory"])
			assert.Equal(t, "*purgatory.stuck", rec["operation"])
			assert.Equal(t, "OnComplete", rec["callback"])
			assert.GreaterOrEqual(t, rec["elapsed"], 20*time.Millisecond)
			assert.Contains(t, rec["stack"], "(*stuck).OnComplete")
		}
		waiting := log.find(EventDue)
		require.NotEmpty(t, waiting)
		assert.LessOrEqual(t, len(waiting), 3, "once a second, after the first")
		assert.Equal(t, slog.LevelWarn, waiting[0]["level"])
		assert.EqualValues(t, 38, waiting[0]["due"])
		assert.InDelta(t, 1.5, waiting[0]["elapsed"].(time.Duration).Seconds(), 0.6)
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
		s = p.Stats()
		assert.EqualValues(t, 2, s.SlowCallbacks)
		assert.Zero(t, s.Running+s.Due+s.StuckCallbacks+int64(s.OldestRunning)+int64(s.OldestDue))
		slow := log.find(EventSlow)
		require.Len(t, slow, 2)
		assert.Equal(t, "produce of client 7", slow[0]["operation"])
		assert.InDelta(t, 4, slow[0]["age"].(time.Duration).Seconds(), 0.1)
	})
}

// A TryComplete that panics, or calls runtime.Goexit, does not run any more.
func TestATryThatUnwindsIsSlowAndNotStuck(t *testing.T) {
	for name, unwind := range map[string]func(){"panic": func() { panic("of the user's") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newManual(t, WithSlowCallback(time.Second), WithLogger(slog.New(&records{})))
				op := submit(t, p, time.Hour, "a")
				op.while = func() {
					op.while = nil
					time.Sleep(time.Minute)
					unwind()
				}
				go p.CheckAndComplete("a")
				time.Sleep(time.Hour)
				s := p.Stats()
				assert.Equal(t, []int64{0, 0, 1}, []int64{s.StuckCallbacks, int64(s.OldestRunning), s.SlowCallbacks})
			})
		})
	}
}

// A callback counts as stuck only after the threshold. The record of a stuck callback has a
// stack only with WithStuckStacks, because all goroutines stop while the runtime writes it.
func TestACallbackIsStuckOnlyAfterTheThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := New[string]("produce", WithSlowCallback(time.Second), WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		_, err = p.TryCompleteElseWatch(&stuck{leave: leave}, 0, "a")
		require.NoError(t, err)
		time.Sleep(900 * time.Millisecond)
		s := p.Stats()
		assert.EqualValues(t, 1, s.Running)
		assert.Zero(t, s.StuckCallbacks)
		assert.InDelta(t, 0.9, s.OldestRunning.Seconds(), 0.05)
		assert.Empty(t, log.find(EventStuck))
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, p.Stats().StuckCallbacks)
		found := log.find(EventStuck)
		require.Len(t, found, 1)
		assert.NotContains(t, found[0], "stack")
		assert.Empty(t, log.find(EventDue), "nothing waits for a worker")
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestPanicsNameTheOperationAndTheCallback(t *testing.T) {
	for _, method := range []string{"TryComplete", "OnComplete", "OnExpiration"} {
		var log records
		p := newManual(t, WithLogger(slog.New(&log)))
		_, err := p.TryCompleteElseWatch(&stuck{fail: method}, time.Second, "a")
		require.NoError(t, err)
		p.AdvanceClock(time.Minute)
		found := log.find(EventPanic)
		times := 1
		if method == "TryComplete" {
			times = 2 // before the operation is watched, and afterwards
		}
		require.Len(t, found, times, method)
		assert.Equal(t, "test", found[0]["purgatory"])
		assert.Equal(t, "produce of client 7", found[0]["operation"])
		assert.Equal(t, method, found[0]["callback"])
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
	p := newManual(t)
	_, err := p.TryCompleteElseWatch(&stuck{fail: "OnComplete"}, 0, "a")
	require.NoError(t, err)
	p.AdvanceClock(0)
	require.Len(t, log.find(EventPanic), 1)
	assert.Equal(t, "test", log.find(EventPanic)[0]["purgatory"])
}

// A logger of the purgatory that takes the record is the only one that gets it.
func TestPanicsWithALoggerDoNotGoToSlogsDefault(t *testing.T) {
	var log, standard records
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(&standard))
	p := newManual(t, WithLogger(slog.New(&log)))
	_, err := p.TryCompleteElseWatch(&stuck{fail: "OnComplete"}, 0, "a")
	require.NoError(t, err)
	p.AdvanceClock(0)
	assert.Len(t, log.find(EventPanic), 1)
	assert.Empty(t, standard.find(EventPanic))
}

// onEvent is a slog.Handler that is told the names of events.
type onEvent func(event string)

func (onEvent) Enabled(context.Context, slog.Level) bool          { return true }
func (f onEvent) Handle(_ context.Context, rec slog.Record) error { f(rec.Message); return nil }
func (f onEvent) WithAttrs([]slog.Attr) slog.Handler              { return f }
func (f onEvent) WithGroup(string) slog.Handler                   { return f }

// If a check holds the operation behind AwaitRead when the context ends, AwaitRead waits until
// the check lets go, and returns the context's cause. A log handler keeps the check busy here.
func TestAwaitReadWaitsForACheckThatHoldsIt(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p := newManual(t, WithSlowCallback(1), WithLogger(slog.New(onEvent(func(event string) {
		if event == EventSlow {
			once.Do(func() { close(entered); <-leave })
		}
	}))))
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	returned := make(chan error, 1)
	go func() {
		_, err := AwaitRead(ctx, p, time.Hour, func(context.Context) (int, bool, error) { return 0, false, nil }, "a")
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
		return p.wishes.Len() == 1
	}, deadline, time.Millisecond, "AwaitRead leaves its wish to the check")
	close(leave)
	require.Equal(t, gone, <-returned)
	checks.Wait()
	assert.Zero(t, p.NumDelayed())
}

// If the context of Shutdown ends while operations wait, Shutdown returns the context's cause,
// even if their callbacks have run by then.
func TestShutdownThatEndsOperationsReturnsTheCause(t *testing.T) {
	var p *DelayedOperationPurgatory[string]
	p = newManual(t, WithLogger(slog.New(onEvent(func(event string) {
		if event == EventClosed { // logged when all have ended: wait for the workers that run the callbacks
			assert.Eventually(t, p.idle, deadline, time.Millisecond)
		}
	}))))
	submit(t, p, time.Hour, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Shutdown(ctx), context.Canceled)
	require.NoError(t, p.Shutdown(t.Context()))
}

// An operation that was refused has not begun to wait: the record of a panic gives it no age.
func TestARefusedOperationHasNoAge(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	clock.AdvanceClock(time.Hour)
	var log records
	var all [2]*DelayedOperationPurgatory[string]
	for i := range all {
		all[i], err = New[string]("test", WithTimer(clock), WithLogger(slog.New(&log)))
		require.NoError(t, err)
		defer all[i].Close()
	}
	op := &probe{while: func() { all[0].Close() }}
	_, err = all[0].TryCompleteElseWatch(op, time.Hour, "a")
	require.ErrorIs(t, err, ErrClosed)
	clock.AdvanceClock(time.Minute)
	op.while = func() { panic("of the user's") }
	_, err = all[1].TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	found := log.find(EventPanic)
	require.NotEmpty(t, found)
	assert.Equal(t, time.Duration(0), found[0]["age"])
}

// A String that panics while a panic is reported loses nothing.
func TestAPanicInStringLosesNoPanicReport(t *testing.T) {
	var log records
	p := newManual(t, WithLogger(slog.New(&log)), WithSlowCallback(1))
	op := &speechless{}
	_, err := p.TryCompleteElseWatch(op, time.Second, "a")
	require.NoError(t, err)
	p.AdvanceClock(time.Minute)
	assert.Equal(t, operation.Expired, op.Outcome())
	callbacks := map[any]any{} // the panic of each
	for _, record := range log.find(EventPanic) {
		assert.Equal(t, "*purgatory.speechless", record["operation"])
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
			p := newManual(t, WithLogger(slog.New(&records{})), WithSlowCallback(1),
				WithPanicHandler(func(v any, _ []byte) { told = append(told, v) }))
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
			p := newManual(t, WithLogger(slog.New(unwindingLog{unwind})),
				WithPanicHandler(func(v any, _ []byte) { told = append(told, v) }))
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

// unwindingLog calls a function instead of writing a record.
type unwindingLog struct{ f func() }

func (unwindingLog) Enabled(context.Context, slog.Level) bool    { return true }
func (l unwindingLog) Handle(context.Context, slog.Record) error { l.f(); return nil }
func (l unwindingLog) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l unwindingLog) WithGroup(string) slog.Handler             { return l }

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
		p, err := New[string]("test", WithLogger(slog.New(&log)))
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
			thrower := submit(t, p, time.Hour, "b")
			thrower.while = func() { panic(other) }
			p.CheckAndComplete("b")
			thrower.while = nil
			p.ForceComplete(thrower)
		}
		all.Wait()
		assert.EqualValues(t, 100, p.Stats().Panics)
		assert.Len(t, log.find(EventPanic), 10)
	})
}

type speechless struct{ operation.DelayedOperation }

func (*speechless) TryComplete() bool { return false }
func (*speechless) OnComplete()       { panic(errors.New("broken")) }
func (*speechless) OnExpiration()     {}
func (*speechless) String() string    { panic("broken, too") }

func TestRejectionsAndLimitsAreInStats(t *testing.T) {
	p := newManual(t, WithMaxPending(1))
	submit(t, p, time.Second, "a")
	_, err := p.TryCompleteElseWatch(&probe{}, time.Second, "a")
	require.ErrorIs(t, err, ErrFull)
	_, err = p.TryCompleteElseWatch(nil, time.Second, "a")
	require.ErrorIs(t, err, ErrNilOperation)
	require.NoError(t, p.Close())
	for range 3 {
		_, err = p.TryCompleteElseWatch(&probe{}, time.Second, "a")
		require.ErrorIs(t, err, ErrClosed)
	}
	s := p.Stats()
	assert.Equal(t, []int64{1, 5, 3, 1, 1}, []int64{s.MaxPending, s.Rejected, s.RejectedClosed, s.RejectedFull, s.RejectedInput})
}

// The records of callbacks name the key: the one that was checked, or the operation's first.
func TestRecordsOfCallbacksNameTheKey(t *testing.T) {
	ways := map[string]struct {
		end func(p *DelayedOperationPurgatory[string], op *stuck)
		key any
	}{
		"first try":        {nil, "a"},
		"a check":          {func(p *DelayedOperationPurgatory[string], op *stuck) { op.met = true; p.CheckAndComplete("b") }, "a"},
		"a check of all":   {func(p *DelayedOperationPurgatory[string], op *stuck) { op.met = true; p.CheckAndCompleteAll() }, "a"},
		"a key's cancel":   {func(p *DelayedOperationPurgatory[string], _ *stuck) { p.CancelForKey("b", nil) }, "a"},
		"force":            {func(p *DelayedOperationPurgatory[string], op *stuck) { p.ForceComplete(op) }, "a"},
		"its timeout":      {func(p *DelayedOperationPurgatory[string], _ *stuck) { p.AdvanceClock(time.Minute) }, "a"},
		"force, and deep":  {func(p *DelayedOperationPurgatory[string], op *stuck) { nest(500, func() { p.ForceComplete(op) }) }, "a"},
		"the end of Close": {func(p *DelayedOperationPurgatory[string], _ *stuck) { p.Close() }, "a"},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			var log records
			p := newManual(t, WithLogger(slog.New(&log)), WithSlowCallback(1))
			op := &stuck{fail: "OnComplete", met: way.end == nil}
			_, err := p.TryCompleteElseWatch(op, time.Second, "a", "b")
			require.NoError(t, err)
			if way.end != nil {
				way.end(p, op)
			}
			require.NoError(t, p.Shutdown(t.Context()))
			for _, event := range []string{EventPanic, EventSlow} {
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
	ways := map[string]func(p *DelayedOperationPurgatory[string]){
		"CheckAndCompleteAll": func(p *DelayedOperationPurgatory[string]) { p.CheckAndCompleteAll() },
		"SignalAll":           func(p *DelayedOperationPurgatory[string]) { p.SignalAll() },
		"Close":               func(p *DelayedOperationPurgatory[string]) { p.Close() },
		"Close, and deep":     func(p *DelayedOperationPurgatory[string]) { nest(3900, func() { p.Close() }) },
		"Shutdown": func(p *DelayedOperationPurgatory[string]) {
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
			p := newManual(t, WithLogger(slog.New(&log)), WithSlowCallback(1), WithWatcherShards(1))
			for n := range many {
				key := fmt.Sprint("key ", n)
				_, err := p.TryCompleteElseWatch(&confused{n: n, key: key, met: &met}, time.Hour, key, key+", too")
				require.NoError(t, err)
			}
			for _, rec := range log.find(EventPanic) {
				require.Equal(t, rec["operation"], rec["key"])
			}
			before := len(log.find(EventPanic))
			met.Store(true)
			done := make(chan struct{})
			go func() { // runtime.Goexit ends it
				defer close(done)
				way(p)
			}()
			<-done
			require.Eventually(t, func() bool { return p.watchers.Inside() == 0 && p.crew.pool.Running() == 0 && !p.crew.waiting() }, time.Minute, time.Millisecond)
			found := log.find(EventPanic)[before:]
			if len(found) < many/3 {
				assert.GreaterOrEqual(t, before+len(found), 10, "the rate is limited")
			}
			for _, rec := range append(found, log.find(EventSlow)...) {
				require.Equal(t, rec["operation"], rec["key"])
			}
		})
	}
}
