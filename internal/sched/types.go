//go:build !interleave

package sched

import "sync/atomic"

// The atomic types of the library's code. In a normal build they are those of sync/atomic.
// With the tag interleave, each operation is a point at which the scheduler may let another
// goroutine run. State whose order no scenario explores uses sync/atomic itself.
type (
	Bool   = atomic.Bool
	Int32  = atomic.Int32
	Int64  = atomic.Int64
	Uint32 = atomic.Uint32
	Uint64 = atomic.Uint64
)
