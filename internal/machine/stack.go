package machine

import (
	"reflect"
	"runtime"
)

// DeepStack is the number of frames at which a goroutine's stack counts as deep.
// Callbacks that would nest further are handed to a worker, which starts with an empty
// stack. A nested completion takes about ten frames and one kilobyte.
const DeepStack = 400

// tryEntry is the address at which the code of Machine.Try begins.
var tryEntry = reflect.ValueOf((*Machine).Try).Pointer()

// tryLength is an upper bound of the length of that code in bytes. It serves as a cheap
// first comparison.
const tryLength = 1024

// Nesting looks at the stack of the calling goroutine. It reports whether the stack
// has at least about DeepStack frames, and whether one of its last DeepStack frames is
// a [Machine.Try].
//
// It takes 0.5 µs for 5 frames and 12 µs for DeepStack frames, so callers should use it
// only when something indicates that calls are nested: see
// docs/decisions.md#an-occupied-gate-asks-for-a-look-at-the-stack.
func Nesting() (deep, inTry bool) {
	var pcs [DeepStack]uintptr
	n := runtime.Callers(2, pcs[:])
	for _, pc := range pcs[:n] {
		if pc-tryEntry < tryLength && runtime.FuncForPC(pc-1).Entry() == tryEntry {
			inTry = true
			break
		}
	}
	return n == len(pcs), inTry
}
