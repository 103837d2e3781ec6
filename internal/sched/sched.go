//go:build !interleave && !stall

// Package sched lets tests run the library's code under schedules of their choice. In a normal
// build its types are those of sync and sync/atomic, and Go is the go statement. With the build tag
// interleave they are those of proof/explore/sched, whose scheduler runs one goroutine at a time:
// at each lock, at each atomic operation and at each call of Yield it chooses which goroutine goes
// on. With the tag stall each of them, and the beginning of each goroutine, stalls at random.
package sched

import "sync"

// Mutex is a mutual exclusion lock. With the tag interleave, the scheduler chooses its owner.
type Mutex = sync.Mutex

// Yield is a point at which the scheduler may let another goroutine run. Only tests call it: in the
// library each operation of a type of this package is such a point.
func Yield() {}

// Go starts f on a goroutine. With the tag interleave, it is a goroutine of the scheduler.
func Go(f func()) { go f() }
