// Package guard calls user code so that a panic in one call does not stop the next call.
package guard

import (
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
)

// Handler gets the recovered value of a panic and the stack on which the panic arose.
type Handler func(recovered any, stack []byte)

// Log is the default [Handler]. It logs the panic and its stack with [slog.Default].
func Log(recovered any, stack []byte) {
	slog.Error("purgatory: panic", "panic", recovered, "stack", string(stack))
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
	go func() {
		defer close(done)
		Call(f, h)
	}()
	<-done
}

// Resume calls f on another goroutine, and again on the next one if f calls runtime.Goexit,
// until f returns. Call it in a deferred function when runtime.Goexit has interrupted f, which
// must go on where it was interrupted. However often this happens, no stack grows.
func Resume(f func()) {
	for returned := false; !returned; {
		Apart(func() { resumed(f, &returned) }, nil)
	}
}

//go:noinline
func resumed(f func(), returned *bool) {
	f()
	*returned = true
}

// ResumedEntry is the address at which the code begins that calls f for [Resume].
var ResumedEntry = reflect.ValueOf(resumed).Pointer()

// Report calls h with a recovered panic and the stack. A nil h means [Log]. If h panics,
// Report recovers and logs both panics. If h calls runtime.Goexit, as Fatal of a test does,
// Report does not return. Call Report in the deferred function that has recovered, because
// the stack still contains the panic there.
func Report(v any, h Handler) {
	stack := debug.Stack()
	defer func() {
		if hv := recover(); hv != nil {
			Log(fmt.Sprintf("%v (and then in the panic handler: %v)", v, hv), stack)
		}
	}()
	if h == nil {
		h = Log
	}
	h(v, stack)
}
