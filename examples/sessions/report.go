package main

import (
	"fmt"
	"io"
	"slices"
	"time"
	"unsafe"
)

func (c *crowd) progress(out io.Writer) {
	fmt.Fprintf(out, "%5.1fs  heartbeats %9d   sessions %8d   found %7d\n", c.run.now().Seconds(), c.run.heartbeats.Load(),
		c.registry.NumDelayed(), c.run.found.Load())
}

// report prints what the run has measured, after it.
func (c *crowd) report(out io.Writer) {
	n := time.Duration(len(c.sessions))
	fmt.Fprintf(out, "\na session           opened in %v, %d bytes of memory: %d for the struct with its operation, the rest for its key\n",
		c.opened/n, c.bytes/int64(n), unsafe.Sizeof(session{}))
	c.reportCost(out)
	c.reportLateness(out)
	late := -c.daredevil.tooLate
	for _, s := range c.sessions {
		if !s.silent() && s.finds.Load() > 0 {
			late++
		}
	}
	fmt.Fprintf(out, "at the deadline     %d heartbeats were in time, %d too late\n", c.daredevil.inTime, c.daredevil.tooLate)
	fmt.Fprintf(out, "late by accident    %d sessions: this program, or the machine, was too slow to have them speak in time\n", late)
}

func (c *crowd) reportCost(out io.Writer) {
	var spent time.Duration
	var sent int64
	var cost []time.Duration
	for _, b := range c.beaters {
		spent += b.spent
		sent += b.sent
		cost = append(cost, b.cost...)
	}
	if sent == 0 {
		return
	}
	fmt.Fprintf(out, "a heartbeat         %v on average, the program's own notes included", spent/time.Duration(sent))
	if len(cost) > 0 {
		slices.Sort(cost)
		fmt.Fprintf(out, ", %v at the median of %d batches of up to %d", percentile(cost, 50), len(cost), batch)
	}
	fmt.Fprintf(out, "; %d in all\n", c.run.heartbeats.Load())
}

func (c *crowd) reportLateness(out io.Writer) {
	var late []time.Duration
	for _, s := range c.sessions {
		if s.silent() && s.finds.Load() > 0 {
			late = append(late, s.foundAt()-s.deadline(c.cfg.timeout))
		}
	}
	fmt.Fprintf(out, "silent sessions     %d, found %d", c.silent, len(late))
	if len(late) > 0 {
		slices.Sort(late)
		fmt.Fprintf(out, "; past the deadline by p50 %v   p99 %v   max %v", percentile(late, 50), percentile(late, 99), percentile(late, 100))
	}
	fmt.Fprintln(out)
}

// percentile is of sorted durations, rounded to what the eye takes in.
func percentile(sorted []time.Duration, percent int) time.Duration {
	d := sorted[(len(sorted)-1)*percent/100]
	if d < 100*time.Microsecond {
		return d
	}
	return d.Round(10 * time.Microsecond)
}
