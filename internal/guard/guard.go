// Package guard runs user code so that what happens in one call never stops
// the next one.
package guard

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Handler is told of a panic: the recovered value and the stack on which it
// arose.
type Handler func(recovered any, stack []byte)

// Log is the Handler of those who set none: it writes the panic, with its
// stack, to slog's default logger.
func Log(recovered any, stack []byte) {
	slog.Error("purgatory: panic in user code", "panic", recovered, "stack", string(stack))
}

// Each calls f(0) … f(n-1), every one of them. A panic in one call is handed to
// h and the loop goes on. After runtime.Goexit in one call the rest runs while
// the goroutine unwinds, and the goroutine then ends, as it was asked to.
func Each(n int, f func(i int), h Handler) { each(0, n, f, h) }

// Call is Each for one function.
func Call(f func(), h Handler) {
	defer func() {
		if v := recover(); v != nil {
			Report(v, h, func() {})
		}
	}()
	f()
}

func each(i, n int, f func(i int), h Handler) {
	for i < n {
		i = run(i, n, f, h)
	}
}

func run(i, n int, f func(i int), h Handler) (next int) {
	finished := false
	defer func() {
		if finished {
			return
		}
		next = i + 1
		if v := recover(); v != nil {
			Report(v, h, func() { each(next, n, f, h) })
			return
		}
		// Neither finished nor panicking: Goexit. Deferred calls still run,
		// so this is the last chance for those that come after.
		each(next, n, f, h)
	}()
	for ; i < n; i++ {
		f(i)
	}
	finished = true
	return n
}

// Report hands a recovered panic to h, with the stack, and what h itself throws to
// the log: a broken handler must not undo what the guard is for. If h calls
// runtime.Goexit (a test's Fatal does), Report does not return: goOn is called while
// the goroutine unwinds, to do what the caller would have done next. Call Report
// from the deferred function that recovered.
func Report(v any, h Handler, goOn func()) {
	stack := debug.Stack()
	returned := false
	defer func() {
		if hv := recover(); hv != nil {
			Log(fmt.Sprintf("%v (and then in the panic handler: %v)", v, hv), stack)
		} else if !returned {
			goOn()
		}
	}()
	if h == nil {
		h = Log
	}
	h(v, stack)
	returned = true
}
