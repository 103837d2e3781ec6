// Package guard calls user code so that a panic in one call does not stop the next call.
package guard

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/delayedop/purgatory/internal/sched"
)

// Handler gets the recovered value of a panic and the stack on which the panic arose.
type Handler func(recovered any, stack []byte)

// Log is the default [Handler]. It logs the panic and its stack with [slog.Default].
func Log(recovered any, stack []byte) {
	slog.Error("purgatory: panic", "panic", Text(recovered), "stack", string(stack))
}

// Call calls f. If f panics, Call recovers and reports the panic to h. If f calls
// runtime.Goexit, the goroutine ends.
func Call(f func(), h Handler) {
	defer func() {
		if v := recover(); v != nil {
			Report(v, h)
		}
	}()
	f()
}

// Apart is [Call] on another goroutine, and waits until that has ended. Use it for user code
// that must not end the caller's goroutine: not even runtime.Goexit does.
func Apart(f func(), h Handler) {
	done := make(chan struct{})
	sched.Go(func() {
		defer close(done)
		Call(f, h)
	})
	sched.Receive(done)
}

// Report calls h with a recovered panic and the stack. A nil h means [Log]. If h panics,
// Report recovers and logs both panics. If h calls runtime.Goexit, as Fatal of a test does,
// Report does not return. Call Report in the deferred function that has recovered, because
// the stack still contains the panic there.
func Report(v any, h Handler) {
	stack := debug.Stack()
	defer func() {
		if hv := recover(); hv != nil {
			Log(fmt.Sprintf("%v (and then in the panic handler: %v)", Text(v), Text(hv)), stack)
		}
	}()
	if h == nil {
		h = Log
	}
	h(v, stack)
}
