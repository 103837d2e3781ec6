package machine

import "runtime"

// DeepStack is the number of frames at which a goroutine's stack counts as deep.
// Callbacks that would nest further are handed to a worker, which starts with an empty
// stack. A nested completion takes about ten frames and one kilobyte.
const DeepStack = 400

// Deep looks at the stack of the calling goroutine, and reports whether it has at least about DeepStack frames. It takes
// 0.5 µs for 5 frames and 12 µs for DeepStack frames, so callers use it only when something indicates that calls are nested.
func Deep() bool {
	var pcs [DeepStack]uintptr
	return runtime.Callers(2, pcs[:]) == len(pcs)
}
