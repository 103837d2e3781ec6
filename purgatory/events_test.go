package purgatory

import (
	"bytes"
	"context"
	"log/slog"
	"runtime/trace"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
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
			"callback": "TryComplete", "elapsed": time.Second, "outcome": "pending",
		}, got[0])
		assert.Equal(t, "OnExpiration", got[1]["callback"])
		assert.Equal(t, "expired", got[1]["outcome"])
	})
}

func TestPanicsAreLoggedWithTheirStack(t *testing.T) {
	log := &records{}
	p := newManual(t, WithLogger(slog.New(log)))
	_, err := p.TryCompleteElseWatch(&panics{}, time.Second, "a")
	require.NoError(t, err)
	got := log.find(EventPanic)
	require.NotEmpty(t, got)
	assert.Equal(t, "no", got[0]["panic"])
	assert.Equal(t, "test", got[0]["purgatory"])
	assert.Contains(t, got[0]["stack"], "TryComplete")
	assert.EqualValues(t, len(got), p.Stats().Panics)
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
		got := log.find(EventStalled)
		require.Len(t, got, 1)
		assert.Equal(t, time.Second, got[0]["elapsed"])
		assert.Equal(t, 200*time.Millisecond, got[0]["interval"])
	})
}

func TestClosingSaysHowManyWereAnsweredHow(t *testing.T) {
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
	require.Len(t, log.find(EventShutdown), 1, "said once")
	assert.EqualValues(t, 2, log.find(EventShutdown)[0]["pending"])
	got := log.find(EventClosed)
	require.Len(t, got, 1)
	assert.EqualValues(t, 2, got[0]["closed"])
	assert.EqualValues(t, 1, got[0]["expired"])
	assert.EqualValues(t, 0, got[0]["left"])
}

func TestTracesHaveRegions(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the tests are being traced already")
	}
	var out bytes.Buffer
	require.NoError(t, trace.Start(&out))
	p := newManual(t)
	op := submit(t, p, time.Second, "a")
	op.ready = true
	assert.Equal(t, 1, p.CheckAndComplete("a"))
	trace.Stop()
	assert.Contains(t, out.String(), regionCheck)
	assert.Contains(t, out.String(), regionCallbacks)
}
