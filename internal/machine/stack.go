package machine

import "runtime"

// DeepStack is the number of frames at which a stack counts as deep: callbacks that would nest further go to a
// worker. A nested completion takes about ten frames and one kilobyte.
const DeepStack = 400

// Deep reports whether the calling goroutine's stack has about DeepStack frames. It takes 0.5 µs for 5 frames
// and 12 µs for 400.
func Deep() bool {
	var pcs [DeepStack]uintptr
	return runtime.Callers(2, pcs[:]) == len(pcs)
}
