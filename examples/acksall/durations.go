package main

import (
	"slices"
	"sync"
	"time"
)

// durations collects measured durations, all of them, so that percentiles are exact. It is safe for concurrent use.
type durations struct {
	mu struct {
		sync.Mutex
		all []time.Duration
	}
}

func (d *durations) add(one time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.all = append(d.mu.all, one)
}

// sorted returns what has been collected so far, in ascending order.
func (d *durations) sorted() []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.mu.all)
	slices.Sort(all)
	return all
}

// percentile returns the smallest of the sorted durations that at least the given percentage of them does not exceed; zero
// when there are none.
func percentile(sorted []time.Duration, percent float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(percent / 100 * float64(len(sorted)))
	if float64(rank)*100 < percent*float64(len(sorted)) {
		rank++
	}
	return sorted[min(max(rank, 1), len(sorted))-1]
}
