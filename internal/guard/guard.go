// Package guard calls user code so that a panic in one call does not stop the next call.
package guard

import (
	"fmt"
	"log/slog"
	"reflect"
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
			Report(v, debug.Stack(), h)
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

// Finish returns f(x). If f calls runtime.Goexit, its goroutine ends, and another one calls f
// again, until it returns; nobody waits for that.
func Finish[T, R any](f func(T) R, x T) (r R) {
	returned := false
	defer func() {
		if !returned {
			sched.Go(func() { Finish(f, x) })
		}
	}()
	r = f(x)
	returned = true
	return r
}

// Report calls h with a recovered panic and its stack: what [debug.Stack] returns in the deferred
// function that has recovered, since the stack still contains the panic there. A nil h means [Log]. If h
// panics, Report recovers and logs both panics. If h calls runtime.Goexit, as Fatal of a test does,
// Report does not return.
func Report(v any, stack []byte, h Handler) {
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

// Text formats a key or the value of a panic. Of one that refers to what another goroutine may be
// writing, it formats the type: to read a map meanwhile would end the process. Of a pointer it
// formats the address, too. A String method of the value runs apart; if it calls runtime.Goexit,
// Text returns the type.
func Text(v any) (text string) {
	if t := reflect.TypeOf(v); t != nil && t.NumMethod() == 0 && (t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String) {
		return fmt.Sprint(v) // runs no code of the user's, and so no goroutine for it
	}
	text = fmt.Sprintf("%T", v)
	Apart(func() {
		switch v.(type) {
		case fmt.Stringer, error:
			text = fmt.Sprint(v)
			return
		}
		switch value := reflect.ValueOf(v); {
		case value.Kind() == reflect.Pointer:
			text = fmt.Sprintf("%T(%p)", v, v)
		case value.Comparable(): // fmt reads no map and no slice in it, and of pointers in it formats the addresses
			text = fmt.Sprint(v)
		}
	}, nil)
	return text
}
