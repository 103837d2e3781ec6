package machine

import "runtime"

// DeepStack is the number of frames from which on callbacks go to a worker. A nested completion takes about ten frames
// and one kilobyte.
const DeepStack = 400

// Deep reports whether the caller's stack has DeepStack frames. It takes 0.5 µs for 5, and 12 µs for 400.
func Deep() bool {
	var pcs [DeepStack]uintptr
	return runtime.Callers(2, pcs[:]) == len(pcs)
}
