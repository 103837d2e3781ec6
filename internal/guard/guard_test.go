package guard

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inGoroutine runs f on a goroutine that may end itself, and reports whether f
// returned.
func inGoroutine(f func()) (returned bool) {
	var wg sync.WaitGroup
	wg.Go(func() {
		f()
		returned = true
	})
	wg.Wait()
	return returned
}

// heard is a Handler that keeps what it is told.
type heard struct {
	values []any
	stacks []string
}

func (h *heard) handle(v any, stack []byte) {
	h.values = append(h.values, v)
	h.stacks = append(h.stacks, string(stack))
}

func TestEachCallsEveryOneOnceAndInOrder(t *testing.T) {
	broken := errors.New("broken")
	var h heard
	var calls []int
	returned := inGoroutine(func() {
		Each(7, func(i int) {
			calls = append(calls, i)
			switch i {
			case 0, 6:
				panic(i)
			case 3:
				panic(broken)
			}
		}, h.handle)
	})
	assert.True(t, returned)
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, calls)
	assert.Equal(t, []any{0, broken, 6}, h.values)
}

func TestEachGoesOnAfterGoexitAndTheGoroutineEnds(t *testing.T) {
	var h heard
	var calls []int
	returned := inGoroutine(func() {
		Each(6, func(i int) {
			calls = append(calls, i)
			switch i {
			case 1, 4, 5:
				runtime.Goexit()
			case 2:
				panic(i)
			}
		}, h.handle)
	})
	assert.False(t, returned, "it was asked to end")
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, calls)
	assert.Equal(t, []any{2}, h.values)
}

func TestEachGoesOnAfterAHandlerThatCallsGoexit(t *testing.T) {
	var calls []int
	returned := inGoroutine(func() {
		Each(4, func(i int) {
			calls = append(calls, i)
			if i == 1 {
				panic(i)
			}
		}, func(any, []byte) { runtime.Goexit() })
	})
	assert.False(t, returned)
	assert.Equal(t, []int{0, 1, 2, 3}, calls)
}

func TestEachOfNothing(t *testing.T) {
	Each(0, func(int) { t.Error("called") }, nil)
	Each(-1, func(int) { t.Error("called") }, nil)
}

func TestCall(t *testing.T) {
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
	Each(1, func(int) { whereItArises() }, h.handle)
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

// A handler that panics itself, and no handler at all: the default log has both.
func TestBrokenHandlerAndNoHandlerAreLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))

	var calls []int
	Each(2, func(i int) { calls = append(calls, i); panic("first") }, func(any, []byte) { panic("second") })
	assert.Equal(t, []int{0, 1}, calls)
	assert.Contains(t, log.String(), "first")
	assert.Contains(t, log.String(), "second")

	log.Reset()
	Call(func() { panic("nobody listens") }, nil)
	assert.Contains(t, log.String(), "nobody listens")
	assert.Contains(t, log.String(), "TestBrokenHandler", "with its stack")
	assert.NotContains(t, log.String(), "in the panic handler", "there is none that could be broken")
}

func TestNoAllocationsWithoutAPanic(t *testing.T) {
	n := 0
	f := func(int) { n++ }
	assert.Zero(t, testing.AllocsPerRun(100, func() { Each(10, f, Log) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { Call(func() { n++ }, Log) }))
}
