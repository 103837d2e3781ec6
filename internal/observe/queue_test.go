package observe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A queue calls its functions one after the other, in their order, whatever they do. Its goroutine ends.
func TestAQueueCallsItsFunctionsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		var called []int
		running := 0
		for i := range 20 {
			q.Add(func() {
				running++
				assert.Equal(t, 1, running)
				time.Sleep(time.Second)
				running--
				called = append(called, i)
				switch i % 3 {
				case 1:
					panic(fmt.Sprint("of function ", i))
				case 2:
					runtime.Goexit()
				}
			})
		}
		time.Sleep(time.Second / 2)
		for i := range 20 {
			assert.False(t, q.Idle(), "function %d runs", i) // also if it is the last
			time.Sleep(time.Second)
		}
		assert.True(t, q.Idle())
		assert.Len(t, called, 20)
		assert.IsIncreasing(t, called)
	})
}

// While a function blocks, Add blocks nobody, and keeps a bounded number of others. Those that it drops are counted.
func TestAQueueThatIsBlockedDropsWhatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		unblock := make(chan struct{})
		q.Add(func() { <-unblock })
		synctest.Wait()
		called := 0
		for range maxWaiting + 7 {
			q.Add(func() { called++ })
		}
		assert.Zero(t, called)
		close(unblock)
		synctest.Wait()
		assert.Equal(t, []int{maxWaiting, 7, 0}, []int{called, q.Dropped(), q.Dropped()})
		q.Add(func() { called++ })
		synctest.Wait()
		assert.Equal(t, []int{maxWaiting + 1, 0}, []int{called, q.Dropped()})
	})
}

type blocked struct {
	slog.Handler
	until chan struct{}
}

func (b blocked) Handle(context.Context, slog.Record) error {
	<-b.until
	return nil
}

func TestALoggerThatBlocksHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		var r Records
		r.Purgatory, r.Logger, r.Handler = "test", slog.New(blocked{slog.NewTextHandler(io.Discard, nil), until}), nil
		told := false
		go func() {
			r.Log(slog.LevelError, "event", func() []any { return nil })
			r.Panic("of the user's", nil, "TryComplete", 1)
			told = true
		}()
		synctest.Wait()
		assert.True(t, told)
		assert.False(t, r.Idle())
		for range 2 * maxWaiting { // those that are not logged take no place of others
			r.Panic("of the user's", nil, "TryComplete", 1)
		}
		assert.Zero(t, r.queue.Dropped())
		close(until)
		synctest.Wait()
		assert.True(t, r.Idle())
	})
}

// Of each event there are ten records a second. The next one says how many there would have been.
func TestRecordsOfAnEventAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		var r Records
		r.Purgatory, r.Logger, r.Handler = "test", slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})), nil
		log := func(n int, event string) {
			for range n {
				r.Log(slog.LevelInfo, event, func() []any { return nil })
			}
			synctest.Wait()
		}
		log(13, "often")
		log(1, "seldom")
		assert.Equal(t, recordsPerSecond, strings.Count(out.String(), "msg=often"))
		assert.Equal(t, 1, strings.Count(out.String(), "msg=seldom"))
		assert.NotContains(t, out.String(), "suppressed")
		time.Sleep(time.Second)
		log(2, "often")
		assert.Equal(t, 1, strings.Count(out.String(), "suppressed=3"))
		r.Log(slog.LevelDebug, "quiet", func() []any { return nil })
		synctest.Wait()
		assert.NotContains(t, out.String(), "quiet")
		assert.True(t, r.Idle())
	})
}

// A panic is counted, and told to the handler as often as it happens. The default logger gets it if nobody else does.
func TestAPanicIsToldToSomebody(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for _, c := range []struct{ logger, handler, logs, toDefault bool }{
		{false, false, false, true}, {false, true, false, false}, {true, false, true, false}, {true, true, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out, fallback strings.Builder
			slog.SetDefault(slog.New(slog.NewTextHandler(&fallback, nil)))
			var logger *slog.Logger
			if c.logger {
				logger = slog.New(slog.NewTextHandler(&out, nil))
			}
			var values []any
			handler := func(v any, stack []byte) {
				assert.Contains(t, string(stack), "TestAPanicIsToldToSomebody")
				values = append(values, v)
			}
			if !c.handler {
				handler = nil
			}
			var r Records
			r.Purgatory, r.Logger, r.Handler = "test", logger, handler
			r.Log(slog.LevelInfo, "event", func() []any { assert.True(t, c.logger, "for nobody"); return nil })
			for i := range 20 {
				r.Panic(i, new(int), "OnComplete", "key")
			}
			synctest.Wait()
			assert.EqualValues(t, 20, r.Panics())
			if c.handler {
				assert.Len(t, values, 20)
			}
			assert.Equal(t, c.logs, strings.Contains(out.String(), "msg=purgatory.panic purgatory=test operation=*int callback=OnComplete key=key panic=0"))
			assert.True(t, r.Idle())
			assert.Equal(t, c.toDefault, strings.Contains(fallback.String(), "msg=purgatory.panic purgatory=test operation=*int"))
		})
	}
}

// What comes again and again, but less often than ten times a second, is logged for ever.
func TestAnEventThatGoesOnIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		var r Records
		r.Purgatory, r.Logger, r.Handler = "test", slog.New(slog.NewTextHandler(&out, nil)), nil
		const each = 700 // more than any count of records
		for range each {
			r.Log(slog.LevelInfo, "again", func() []any { return nil })
			synctest.Wait()
			time.Sleep(time.Second / 5)
		}
		assert.Equal(t, each, strings.Count(out.String(), "msg=again"))
		assert.NotContains(t, out.String(), "suppressed")
	})
}
