package purgatory

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"runtime/trace"
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

// records is a slog.Handler that keeps what it is told.
type records struct {
	mu  sync.Mutex
	all []slog.Record
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
	return nil
}

// find returns the attributes of the records of an event.
func (r *records) find(event string) (all []map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.all {
		if rec.Message != event {
			continue
		}
		attrs := map[string]any{"level": rec.Level}
		rec.Attrs(func(a slog.Attr) bool {
			attrs[a.Key] = a.Value.Any()
			return true
		})
		all = append(all, attrs)
	}
	return all
}

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
		p, err := New[string]("slow", WithLogger(slog.New(log)), WithSlowCallback(50*time.Millisecond))
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Shutdown(t.Context())) }()
		_, err = p.TryCompleteElseWatch(&slow{try: time.Second, expire: 60 * time.Millisecond, complete: 40 * time.Millisecond}, 5*time.Second, "a")
		require.NoError(t, err)
		p.CheckAndComplete("a")
		time.Sleep(10 * time.Second)
		got := log.find(EventSlow)
		require.Len(t, got, 2, "OnComplete was fast enough")
		assert.Equal(t, map[string]any{
			"level": slog.LevelWarn, "purgatory": "slow", "operation": "*purgatory.slow",
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
			p := newManual(t, WithLogger(slog.New(log)), WithSlowCallback(threshold))
			told := 0
			_, err := p.TryCompleteElseWatch(&teller{tell: func() { told++; time.Sleep(time.Second) }}, time.Hour, "a")
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
			assert.Len(t, log.find(EventSlow), 3*logged)
		})
	}
}

func TestPanicsAreLoggedWithTheirStack(t *testing.T) {
	log := &records{}
	p := newManual(t, WithLogger(slog.New(log)))
	_, err := p.TryCompleteElseWatch(&panics{}, time.Second, "a")
	require.NoError(t, err)
	got := log.find(EventPanic)
	require.Len(t, got, 2, "once for each try")
	assert.Equal(t, "no", got[0]["panic"])
	assert.Equal(t, "test", got[0]["purgatory"])
	assert.Contains(t, got[0]["stack"], "TryComplete")
	assert.EqualValues(t, 2, p.Stats().Panics)
}

type panics struct{ operation.DelayedOperation }

func (*panics) TryComplete() bool { panic("no") }
func (*panics) OnComplete()       {}
func (*panics) OnExpiration()     {}

// TestAStalledReaperIsLogged drives the reaper's work by hand: a stall is a gap between two rounds.
func TestAStalledReaperIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := newManual(t, WithLogger(slog.New(log)))
		round := p.reap()
		time.Sleep(400 * time.Millisecond)
		round()
		assert.Empty(t, log.find(EventStalled))
		time.Sleep(time.Second)
		round()
		synctest.Wait()
		got := log.find(EventStalled)
		require.Len(t, got, 1)
		assert.Equal(t, time.Second, got[0]["elapsed"])
		assert.Equal(t, 200*time.Millisecond, got[0]["interval"])

		p = newManual(t, WithLogger(slog.New(log)), WithReapInterval(math.MaxInt64))
		round = p.reap()
		time.Sleep(time.Hour)
		round()
		synctest.Wait()
		assert.Len(t, log.find(EventStalled), 1, "no gap is longer than planned")
	})
}

// onStalled is a slog.Handler that calls a function for the records of stalls.
type onStalled struct {
	records
	call func()
}

func (h *onStalled) Handle(_ context.Context, r slog.Record) error {
	if r.Message == EventStalled {
		h.call()
	}
	return nil
}

// A logger that blocks when it is told of a stall does not keep the reaper's rounds. Shutdown waits
// for it, though the reaper has ended.
func TestALoggerThatBlocksStopsNoSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged atomic.Bool
		p := newManual(t, WithLogger(slog.New(&onStalled{call: func() {
			time.Sleep(time.Minute)
			logged.Store(true)
		}})))
		round := p.reap()
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
		p := newManual(t, WithPanicHandler(func(any, []byte) { told.Add(1) }),
			WithLogger(slog.New(&onStalled{call: func() { panic("of the logger's") }})))
		round := p.reap()
		for n := range int64(3) {
			time.Sleep(time.Second)
			round()
			synctest.Wait()
			assert.Equal(t, n+1, told.Load())
		}
	})
}

func TestCloseLogsTheNumberOfEachOutcome(t *testing.T) {
	log := &records{}
	p := newManual(t, WithLogger(slog.New(log)))
	submit(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	submit(t, p, time.Second, "a")
	submit(t, p, time.Second, "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Shutdown(ctx), context.Canceled)
	require.NoError(t, p.Shutdown(t.Context()))
	require.NoError(t, p.Shutdown(t.Context()))
	require.Len(t, log.find(EventShutdown), 1, "said once")
	assert.EqualValues(t, 2, log.find(EventShutdown)[0]["pending"])
	got := log.find(EventClosed)
	require.Len(t, got, 1)
	assert.EqualValues(t, 2, got[0]["closed"])
	assert.EqualValues(t, 1, got[0]["expired"])
	assert.EqualValues(t, 0, got[0]["left"])
}

func TestTracesHaveRegionsOfChecksAndCallbacks(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the tests are being traced already")
	}
	var out bytes.Buffer
	require.NoError(t, trace.Start(&out))
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := New[string]("name of the traced", WithTimer(clock))
	require.NoError(t, err)
	defer p.Close()
	told := 0
	_, err = p.TryCompleteElseWatch(&teller{tell: func() { told++ }}, time.Second, "a")
	require.NoError(t, err)
	assert.Equal(t, 1, p.CancelForKey("a", nil))
	trace.Stop()
	assert.Equal(t, 1, told)
	assert.Contains(t, out.String(), regionCheck)
	assert.Contains(t, out.String(), regionCallbacks)
	assert.Contains(t, out.String(), "name of the traced")
}

// teller says when it is complete.
type teller struct {
	operation.DelayedOperation
	tell func()
}

func (*teller) TryComplete() bool { return false }
func (o *teller) OnComplete()     { o.tell() }
func (*teller) OnExpiration()     {}
