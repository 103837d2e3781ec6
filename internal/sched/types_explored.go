//go:build interleave

package sched

import "sync/atomic"

// Bool, Int32, Int64, Uint32 and Uint64 replace the atomic types of a normal build: each
// operation yields before it happens.
type (
	Bool   struct{ v atomic.Bool }
	Int32  struct{ v atomic.Int32 }
	Int64  struct{ v atomic.Int64 }
	Uint32 struct{ v atomic.Uint32 }
	Uint64 struct{ v atomic.Uint64 }
)

func (x *Bool) Load() bool { Yield(); return x.v.Load() }

func (x *Bool) Store(v bool) { Yield(); x.v.Store(v) }

func (x *Bool) Swap(v bool) bool { Yield(); return x.v.Swap(v) }

func (x *Bool) CompareAndSwap(old, v bool) bool { Yield(); return x.v.CompareAndSwap(old, v) }

func (x *Int32) Load() int32 { Yield(); return x.v.Load() }

func (x *Int32) Store(v int32) { Yield(); x.v.Store(v) }

func (x *Int32) Add(d int32) int32 { Yield(); return x.v.Add(d) }

func (x *Int32) Swap(v int32) int32 { Yield(); return x.v.Swap(v) }

func (x *Int32) CompareAndSwap(old, v int32) bool { Yield(); return x.v.CompareAndSwap(old, v) }

func (x *Int64) Load() int64 { Yield(); return x.v.Load() }

func (x *Int64) Store(v int64) { Yield(); x.v.Store(v) }

func (x *Int64) Add(d int64) int64 { Yield(); return x.v.Add(d) }

func (x *Int64) Swap(v int64) int64 { Yield(); return x.v.Swap(v) }

func (x *Int64) CompareAndSwap(old, v int64) bool { Yield(); return x.v.CompareAndSwap(old, v) }

func (x *Uint32) Load() uint32 { Yield(); return x.v.Load() }

func (x *Uint32) Store(v uint32) { Yield(); x.v.Store(v) }

func (x *Uint32) Add(d uint32) uint32 { Yield(); return x.v.Add(d) }

func (x *Uint32) Swap(v uint32) uint32 { Yield(); return x.v.Swap(v) }

func (x *Uint32) Or(v uint32) uint32 { Yield(); return x.v.Or(v) }

func (x *Uint32) And(v uint32) uint32 { Yield(); return x.v.And(v) }

func (x *Uint32) CompareAndSwap(old, v uint32) bool { Yield(); return x.v.CompareAndSwap(old, v) }

func (x *Uint64) Load() uint64 { Yield(); return x.v.Load() }

func (x *Uint64) Store(v uint64) { Yield(); x.v.Store(v) }

func (x *Uint64) Add(d uint64) uint64 { Yield(); return x.v.Add(d) }

func (x *Uint64) Swap(v uint64) uint64 { Yield(); return x.v.Swap(v) }

func (x *Uint64) Or(v uint64) uint64 { Yield(); return x.v.Or(v) }

func (x *Uint64) And(v uint64) uint64 { Yield(); return x.v.And(v) }

func (x *Uint64) CompareAndSwap(old, v uint64) bool { Yield(); return x.v.CompareAndSwap(old, v) }
