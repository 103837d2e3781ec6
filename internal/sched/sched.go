//go:build !interleave

// Package sched lets tests run the library's code under every schedule of its goroutines. In
// a normal build, Mutex is sync.Mutex and Yield is an empty function that the compiler
// removes. With the build tag interleave, a scheduler runs one goroutine at a time; at each
// lock and each call of Yield it chooses which goroutine goes on.
package sched

import "sync"

// Mutex is a mutual exclusion lock. With the tag interleave, the scheduler chooses its owner.
type Mutex = sync.Mutex

// Yield marks a point at which the scheduler may let another goroutine run. The library calls
// it before the atomic operations whose order the interleaving tests explore.
func Yield() {}
