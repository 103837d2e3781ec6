package main

import (
	"fmt"
	"io"
	"time"

	"github.com/delayedop/purgatory/examples/internal/program"
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
	fmt.Fprintf(out, "from POST to a poller: %s\n", program.Spread(latency))
	s := d.server.waiting.Stats()
	fmt.Fprintf(out, "purgatory: %d waits: %d satisfied, %d expired, %d cancelled, %d closed; %d signals; %d checks, %d wasted\n",
		s.Accepted, s.Satisfied, s.Expired, s.Cancelled, s.Closed, s.Signals, s.Checks, s.WastedChecks)
}
