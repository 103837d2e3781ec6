//go:build !interleave

// Package sched is the seam between the library and the exhaustive
// interleaving tests. In a normal build it is nothing: Mutex is sync.Mutex and
// Yield is an empty function that the compiler removes. Under the build tag
// interleave both are driven by a scheduler that runs one goroutine at a time
// and tries every order.
package sched

import "sync"

// Mutex is a mutual exclusion lock that the interleaving tests can schedule.
type Mutex = sync.Mutex

// Yield marks a point at which another goroutine may run: it stands before
// every atomic operation on shared state.
func Yield() {}
