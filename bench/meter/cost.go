// Package meter measures stretches of work: wall time, processor time, allocations, memory and lateness.
//
// Processor time comes from getrusage, so it counts every thread of the process: the collector, the timer's clock and its
// workers are all in it.
package meter

import (
	"runtime"
	"syscall"
	"time"
)

// Cost is what a stretch of work took.
type Cost struct {
	Wall    time.Duration
	CPU     time.Duration
	Mallocs uint64
	Bytes   uint64
}

// Stretch is a measurement under way. It is not safe for concurrent use.
type Stretch struct {
	start  time.Time
	before Cost // of the process so far
}

// Start begins a measurement. It stops the world for a moment, before the clock starts.
func Start() Stretch {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Stretch{before: Cost{CPU: CPU(), Mallocs: m.Mallocs, Bytes: m.TotalAlloc}, start: time.Now()}
}

// Stop ends the measurement.
func (s Stretch) Stop() Cost {
	c := Cost{Wall: time.Since(s.start), CPU: CPU() - s.before.CPU}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.Mallocs = m.Mallocs - s.before.Mallocs
	c.Bytes = m.TotalAlloc - s.before.Bytes
	return c
}

// CPU returns the processor time, user and system, that the process has used so far.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
