package guard

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// inGoroutine runs f on a goroutine of its own and reports whether f returned. It did not if
// it called runtime.Goexit.
func inGoroutine(f func()) (returned bool) {
	var wg sync.WaitGroup
	wg.Go(func() {
		f()
		returned = true
	})
	wg.Wait()
	return returned
}

// heard is a Handler that records its calls.
type heard struct {
	values []any
	stacks []string
}

func (h *heard) handle(v any, stack []byte) {
	h.values = append(h.values, v)
	h.stacks = append(h.stacks, string(stack))
}

func TestCallContainsPanicsAndReportsThem(t *testing.T) {
	var h heard
	assert.True(t, inGoroutine(func() { Call(func() {}, h.handle) }))
	assert.Empty(t, h.values)
	assert.True(t, inGoroutine(func() { Call(func() { panic("one") }, h.handle) }))
	assert.False(t, inGoroutine(func() { Call(runtime.Goexit, h.handle) }))
	assert.Equal(t, []any{"one"}, h.values)
}

func TestHandlerGetsTheStackOnWhichThePanicArose(t *testing.T) {
	var h heard
	Call(whereItArises, h.handle)
	Call(whereItArises, h.handle)
	for _, stack := range h.stacks {
		assert.Contains(t, stack, "whereItArises")
	}
	assert.Len(t, h.stacks, 2)
}

//go:noinline
func whereItArises() { panic("here") }

func TestNilPanicIsReported(t *testing.T) {
	var h heard
	Call(func() { panic(nil) }, h.handle)
	assert.Len(t, h.values, 1)
}

// If the handler panics, or is nil, the default logger gets the panic.
func TestBrokenHandlerAndNoHandlerAreLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))

	var calls []int
	for i := range 2 {
		Call(func() { calls = append(calls, i); panic("first") }, func(any, []byte) { panic("second") })
	}
	assert.Equal(t, []int{0, 1}, calls)
	assert.Contains(t, log.String(), "first")
	assert.Contains(t, log.String(), "second")

	log.Reset()
	Call(func() { panic("no handler") }, nil)
	assert.Contains(t, log.String(), "no handler")
	assert.Contains(t, log.String(), "TestBrokenHandler", "with its stack")
	assert.NotContains(t, log.String(), "in the panic handler", "no handler has panicked")
}

// worse is an error whose text panics with it, as fmt does then.
type worse struct{}

func (e worse) Error() string { panic(e) }

// The default logger panics, too.
func TestNobodyIsLeftToBeTold(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(writer(func() { panic("the disk is full") }), nil)))
	assert.True(t, inGoroutine(func() { Call(func() { panic(worse{}) }, nil) }))
	assert.Equal(t, "guard.worse", Text(worse{}))
}

type writer func()

func (w writer) Write([]byte) (int, error) { w(); return 0, nil }

func TestNoAllocationsWithoutAPanic(t *testing.T) {
	n := 0
	assert.Zero(t, testing.AllocsPerRun(100, func() { Call(func() { n++ }, Log) }))
}

// A text that needs no code of the user's needs no goroutine either, and so no channel: ErrFull names a key with it.
func TestTheTextOfAPlainKeyStartsNoGoroutine(t *testing.T) {
	type topic string
	for _, key := range []any{"orders-0", topic("orders-0"), 7, 1.5, true} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { Text(key) }), 2.0, "%T", key)
		assert.Equal(t, fmt.Sprint(key), Text(key))
	}
}
