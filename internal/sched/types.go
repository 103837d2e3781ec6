//go:build !interleave && !stall

package sched

import "sync/atomic"

// The atomic types of the library's code. State whose order no scenario explores uses sync/atomic itself.

type (
	// Bool is an atomic bool.
	Bool = atomic.Bool
	// Int64 is an atomic int64.
	Int64 = atomic.Int64
	// Uint32 is an atomic uint32.
	Uint32 = atomic.Uint32
	// Uint64 is an atomic uint64.
	Uint64 = atomic.Uint64
	// Pointer is an atomic pointer.
	Pointer[T any] = atomic.Pointer[T]
)

// inlined makes these methods inlinable in packages that do not import sync/atomic.
func inlined(b *Bool, l *Int64, u *Uint32, w *Uint64) {
	b.Store(!b.Load() && b.Swap(true) && b.CompareAndSwap(false, true))
	l.Store(l.Load() + l.Add(1) + l.Swap(1))
	u.Store(u.Load() + u.Add(1) + u.Swap(1) + u.Or(1) + u.And(1))
	w.Store(w.Load() + w.Add(1) + w.Swap(1) + w.Or(1) + w.And(1))
	b.Store(l.CompareAndSwap(0, 1) && u.CompareAndSwap(0, 1) && w.CompareAndSwap(0, 1))
}

var _ = inlined
