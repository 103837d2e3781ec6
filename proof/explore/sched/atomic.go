//go:build interleave

package sched

// number is an integer; each operation yields before it happens. It needs no synchronisation of its
// own: one goroutine runs at a time.
type number[T int32 | int64 | uint32 | uint64] struct{ v T }

// The types that replace those of sync/atomic.
type (
	Int64  = number[int64]
	Uint32 = number[uint32]
	Uint64 = number[uint64]
)

func (x *number[T]) Load() T { Yield(); return x.v }

func (x *number[T]) Store(v T) { x.Swap(v) }

func (x *number[T]) Add(d T) (sum T) { Yield(); x.v += d; sum = x.v; behind(); return sum }

func (x *number[T]) Swap(v T) (old T) { Yield(); old, x.v = x.v, v; behind(); return old }

func (x *number[T]) Or(v T) (old T) { Yield(); old = x.v; x.v |= v; behind(); return old }

func (x *number[T]) And(v T) (old T) { Yield(); old = x.v; x.v &= v; behind(); return old }

func (x *number[T]) CompareAndSwap(old, v T) (swapped bool) {
	Yield()
	if swapped = x.v == old; swapped {
		x.v = v
		behind()
	}
	return swapped
}

// Bool replaces that of sync/atomic.
type Bool struct{ v bool }

func (x *Bool) Load() bool { Yield(); return x.v }

func (x *Bool) Store(v bool) { x.Swap(v) }

func (x *Bool) Swap(v bool) (old bool) { Yield(); old, x.v = x.v, v; behind(); return old }

func (x *Bool) CompareAndSwap(old, v bool) (swapped bool) {
	Yield()
	if swapped = x.v == old; swapped {
		x.v = v
		behind()
	}
	return swapped
}

// Pointer replaces that of sync/atomic.
type Pointer[T any] struct{ v *T }

func (x *Pointer[T]) Load() *T { Yield(); return x.v }

func (x *Pointer[T]) Store(v *T) { x.Swap(v) }

func (x *Pointer[T]) Swap(v *T) (old *T) { Yield(); old, x.v = x.v, v; behind(); return old }

func (x *Pointer[T]) CompareAndSwap(old, v *T) (swapped bool) {
	Yield()
	if swapped = x.v == old; swapped {
		x.v = v
		behind()
	}
	return swapped
}
