package logging_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"

	"github.com/delayedop/purgatory/internal/logging"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// sink is a handler whose methods call before, which may block, and notes what it is told.
type sink struct {
	enabled, before func()
	least           slog.Level

	mu      sync.Mutex
	records []slog.Record
}

func (s *sink) Enabled(_ context.Context, level slog.Level) bool {
	if s.enabled != nil {
		s.enabled()
	}
	return level >= s.least
}

func (s *sink) Handle(_ context.Context, r slog.Record) error {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, r)
	return nil
}

func (s *sink) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s *sink) WithGroup(string) slog.Handler      { return s }

func (s *sink) messages() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		all = append(all, r.Message)
	}
	return all
}

func ignore(any, []byte) {}

// attribute returns the value of an attribute of r.
func attribute(r slog.Record, key string) (value any) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			value = a.Value.Any()
		}
		return true
	})
	return value
}

func TestASinkThatDoesNotReturnHoldsUpNobody(t *testing.T) {
	for name, blocks := range map[string]func(s *sink, f func()){
		"Handle":  func(s *sink, f func()) { s.before = f },
		"Enabled": func(s *sink, f func()) { s.enabled = f },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				s := &sink{}
				blocks(s, func() { <-release })
				h := logging.New(s, "lost", ignore)
				l := slog.New(h)
				l.Info("in hand", "n", -1)
				synctest.Wait()
				const logged = 1000
				began := time.Now()
				for i := range logged {
					l.Info("waits", "n", i)
				}
				assert.Zero(t, time.Since(began))
				assert.False(t, h.Wait(3*time.Second))
				assert.Equal(t, 3*time.Second, time.Since(began), "a bounded time")

				close(release)
				assert.True(t, h.Wait(time.Minute))
				got := s.records
				assert.Len(t, got, 1+256+1)
				lost := got[2] // it comes when the sink takes records again
				assert.Equal(t, "lost", lost.Message)
				assert.Equal(t, slog.LevelWarn, lost.Level)
				assert.EqualValues(t, logged-256, attribute(lost, "records"))
				for i, r := range slices.Delete(slices.Clone(got), 2, 3) {
					assert.EqualValues(t, i-1, attribute(r, "n"), "in order")
				}

				l.Info("flows")
				synctest.Wait()
				assert.Equal(t, "flows", s.messages()[258])
				assert.Len(t, s.messages(), 259, "and nothing more is lost")
			})
		})
	}
}

func TestTheGoroutineEndsWhenNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // ends when all its goroutines have
		s := &sink{}
		l := slog.New(logging.New(s, "lost", ignore))
		before := watchdog.InBubbles()
		for range 3 {
			l.Info("a")
			synctest.Wait()
			assert.Equal(t, before, watchdog.InBubbles())
		}
		assert.Equal(t, []string{"a", "a", "a"}, s.messages())
	})
}

func TestASinkThatFailsLosesOneRecord(t *testing.T) {
	for name, fails := range map[string]func(){"panics": func() { panic("of the sink") }, "calls Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, calls, panics := &sink{}, 0, 0
				s.before = func() {
					if calls++; calls == 2 {
						fails()
					}
				}
				l := slog.New(logging.New(s, "lost", func(any, []byte) { panics++ }))
				l.Info("a")
				l.Info("b")
				l.Info("c")
				synctest.Wait()
				l.Info("d")
				synctest.Wait()
				assert.Equal(t, []string{"a", "c", "d"}, s.messages())
				assert.Equal(t, map[string]int{"panics": 1}[name], panics)
			})
		})
	}
}

func TestTheSinkSaysWhichLevelsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{least: slog.LevelWarn}
		l := slog.New(logging.New(s, "lost", ignore))
		l.Info("no")
		l.Warn("yes")
		synctest.Wait()
		assert.Equal(t, []string{"yes"}, s.messages())
		assert.False(t, slog.New(logging.New(slog.DiscardHandler, "lost", ignore)).Enabled(t.Context(), slog.LevelError))
	})
}

type text struct {
	slog.Handler
	mu *sync.Mutex
	b  []byte
}

func (w *text) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, b...)
	return len(b), nil
}

// adds is a sink that adds an attribute to each record.
type adds struct{ slog.Handler }

func (a adds) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Int("sink", 1))
	return a.Handler.Handle(ctx, r)
}

// The caller's record and that of the sink are apart, as package slog asks for.
func TestARecordIsTheSinksOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &text{mu: new(sync.Mutex)}
		h := logging.New(adds{slog.NewTextHandler(w, nil)}, "lost", ignore)
		for n := range 12 { // some of them do not fit into the record, and some of these leave room
			r := slog.NewRecord(time.Now(), slog.LevelInfo, "m", 0)
			for i := range n {
				r.AddAttrs(slog.Int("own", i))
			}
			assert.NoError(t, h.Handle(t.Context(), r))
			r.AddAttrs(slog.Int("later", 1))
			assert.True(t, h.Wait(time.Minute))
		}
		assert.Equal(t, 12, strings.Count(string(w.b), "sink=1\n"))
		assert.NotContains(t, string(w.b), "BUG")
		assert.NotContains(t, string(w.b), "later")
	})
}

// What a logger has been given is in its records, also in the one of those that were lost.
func TestAttributesAndGroupsReachTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &text{mu: new(sync.Mutex)}
		h := logging.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}), "lost", ignore)
		l := slog.New(h).With("of", "all").WithGroup("g")
		args := []any{"a", 1}
		w.mu.Lock() // the sink blocks
		for range 300 {
			l.Info("m", args...)
		}
		args[1] = 2 // the caller's
		w.mu.Unlock()
		assert.True(t, h.Wait(time.Minute))
		assert.Contains(t, string(w.b), "level=INFO msg=m of=all g.a=1\n")
		assert.NotContains(t, string(w.b), "g.a=2")
		assert.Contains(t, string(w.b), "level=WARN msg=lost of=all g.records=")
	})
}

// Loggers that race with each other and with the end of the goroutine: each record arrives or is counted.
func TestEachRecordArrivesOrIsCounted(t *testing.T) {
	const goroutines, each = 8, 2000
	s := &sink{}
	h := logging.New(s, "lost", ignore)
	l := slog.New(h)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range each {
				if l.Info("m"); i%100 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	assert.True(t, h.Wait(time.Minute))
	arrived, lost := 0, int64(0)
	for _, r := range s.records {
		if r.Message == "m" {
			arrived++
		} else {
			lost += attribute(r, "records").(int64)
		}
	}
	assert.EqualValues(t, goroutines*each, int64(arrived)+lost)
}
