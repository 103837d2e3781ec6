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

// Log is the default [Handler]. It logs the panic and its stack with [slog.Default]. If that panics, too, nobody is left to
// be told.
func Log(recovered any, stack []byte) {
	defer func() { _ = recover() }()
	slog.Error("purgatory: panic", "panic", Text(recovered), "stack", string(stack))
}

// Call calls f, and recovers a panic of f as [Recover] does. If f calls runtime.Goexit, the goroutine ends.
func Call(f func(), h Handler) {
	defer Recover(h)
	f()
}

// Recover hands a panic to h, or to [Log] if h is nil. If h panics, both panics are logged. It has to be deferred
// itself.
func Recover(h Handler) {
	v := recover()
	if v == nil {
		return
	}
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

// Text formats a key or the value of a panic. Of one that refers to what another goroutine may be writing it
// formats the type: to read a map meanwhile would end the process. Of a pointer it formats the address, too. fmt
// recovers a panic of a String or Error method, but not if that one's value panics, too.
func Text(v any) (text string) {
	switch v.(type) {
	case fmt.Stringer, error:
		text = fmt.Sprintf("%T", v)
		Call(func() { text = fmt.Sprint(v) }, func(any, []byte) {})
		return text
	}
	switch value := reflect.ValueOf(v); {
	case value.Kind() == reflect.Pointer:
		return fmt.Sprintf("%T(%p)", v, v)
	case value.IsValid() && value.Comparable(): // there is no map and no slice in it
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%T", v)
}
