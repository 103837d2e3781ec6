package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// report prints what happened, after the pollers have ended.
func (d *demo) report(out io.Writer) {
	var published, missed int64
	for i := range d.published {
		published += d.published[i].Load()
	}
	var latency []time.Duration
	answers := 0
	for _, p := range d.pollers {
		latency = append(latency, p.latency...)
		answers += p.answers
		missed += p.missed
	}
	fmt.Fprintf(out, "%d messages were published, %d were sent to pollers in %d answers, %d were gone before a poller asked for them (410)\n",
		published, len(latency), answers, missed)
	if len(latency) > 0 {
		slices.Sort(latency)
		at := func(percent int) time.Duration {
			return latency[(len(latency)-1)*percent/100].Round(10 * time.Microsecond)
		}
		fmt.Fprintf(out, "from POST to a poller: p50 %v   p99 %v   max %v\n", at(50), at(99), at(100))
	}
	s := d.server.waiting.Stats()
	fmt.Fprintf(out, "purgatory: %d waits: %d satisfied, %d expired, %d cancelled, %d closed; %d signals, %d coalesced; %d checks, %d wasted\n",
		s.Accepted, s.Satisfied, s.Expired, s.Cancelled, s.Closed, s.Signals, s.Coalesced, s.Checks, s.WastedChecks)
}
