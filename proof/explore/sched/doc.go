// Package sched has the types and functions of the library's internal/sched in a build with the tag
// interleave: they let a [Scheduler] decide which goroutine goes on. Without the tag it is empty.
package sched
