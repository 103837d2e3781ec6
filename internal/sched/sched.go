//go:build !interleave

// Package sched lets tests run the library's code under schedules of their choice. In a normal
// build its types are those of sync and sync/atomic, Go is the go statement, and Yield is an
// empty function that the compiler removes. With the build tag interleave a [Scheduler] runs
// one goroutine at a time; at each lock, at each atomic operation and at each call of Yield it
// chooses which goroutine goes on. The search for schedules is in proof/explore.
package sched

import "sync"

// Mutex is a mutual exclusion lock. With the tag interleave, the scheduler chooses its owner.
type Mutex = sync.Mutex

// Yield marks a point at which the scheduler may let another goroutine run. The library calls
// it before the atomic operations whose order the interleaving tests explore.
func Yield() {}

// Go starts f on a goroutine. With the tag interleave, it is a goroutine of the scheduler.
func Go(f func()) { go f() }
