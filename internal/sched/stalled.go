//go:build stall && !interleave

package sched

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The types whose operations stall at random: each method is that of sync or sync/atomic.
type (
	Bool   struct{ v atomic.Bool }
	Int64  = number[int64, atomic.Int64, *atomic.Int64]
	Uint32 = number[uint32, atomic.Uint32, *atomic.Uint32]
	Uint64 = number[uint64, atomic.Uint64, *atomic.Uint64]
	Mutex  struct{ v sync.Mutex }

	Pointer[T any] struct{ v atomic.Pointer[T] }

	number[T, A any, P integer[T, A]] struct{ v A }

	integer[T, A any] interface {
		*A
		Load() T
		Store(v T)
		Add(d T) T
		Swap(v T) T
		Or(v T) T
		And(v T) T
		CompareAndSwap(old, v T) bool
	}
)

func (x *number[T, A, P]) Load() T                    { stall(); return P(&x.v).Load() }
func (x *number[T, A, P]) Store(v T)                  { stall(); P(&x.v).Store(v) }
func (x *number[T, A, P]) Add(d T) T                  { stall(); return P(&x.v).Add(d) }
func (x *number[T, A, P]) Swap(v T) T                 { stall(); return P(&x.v).Swap(v) }
func (x *number[T, A, P]) Or(v T) T                   { stall(); return P(&x.v).Or(v) }
func (x *number[T, A, P]) And(v T) T                  { stall(); return P(&x.v).And(v) }
func (x *number[T, A, P]) CompareAndSwap(o, v T) bool { stall(); return P(&x.v).CompareAndSwap(o, v) }

func (b *Bool) Load() bool                      { stall(); return b.v.Load() }
func (b *Bool) Store(v bool)                    { stall(); b.v.Store(v) }
func (b *Bool) Swap(v bool) bool                { stall(); return b.v.Swap(v) }
func (b *Bool) CompareAndSwap(old, v bool) bool { stall(); return b.v.CompareAndSwap(old, v) }

func (p *Pointer[T]) Load() *T                    { stall(); return p.v.Load() }
func (p *Pointer[T]) Store(v *T)                  { stall(); p.v.Store(v) }
func (p *Pointer[T]) Swap(v *T) *T                { stall(); return p.v.Swap(v) }
func (p *Pointer[T]) CompareAndSwap(o, v *T) bool { stall(); return p.v.CompareAndSwap(o, v) }

func (m *Mutex) Lock()         { stall(); m.v.Lock() }
func (m *Mutex) TryLock() bool { stall(); return m.v.TryLock() }
func (m *Mutex) Unlock()       { stall(); m.v.Unlock() } // others find it held

// Go starts f on a goroutine, which begins late.
func Go(f func()) { go func() { stall(); f() }() }

// Yield may stall, too.
func Yield() { stall() }

// stall lets others run in one of eight calls, and sleeps for at most 100 µs in one of 4,096, but not in a
// bubble, whose time would stop.
func stall() {
	switch n := rand.Uint32N(1 << 12); {
	case n == 0 && !InBubble():
		time.Sleep(rand.N(100 * time.Microsecond))
	case n < 1<<9:
		runtime.Gosched()
	}
}
