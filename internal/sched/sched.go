//go:build !interleave && !stall

// Package sched lets tests run the library's code under schedules of their choice. In a normal build its types
// are those of sync and sync/atomic. With the tag interleave, the scheduler of proof/explore/sched chooses at
// each operation which goroutine goes on. With the tag stall each of them stalls at random.
package sched

import "sync"

// Mutex is a mutual exclusion lock.
type Mutex = sync.Mutex

// Yield is a point at which the scheduler of tests may let another goroutine run.
func Yield() {}

// Go starts f on a goroutine.
func Go(f func()) { go f() }
