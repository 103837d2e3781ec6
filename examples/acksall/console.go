package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// console writes lines with the time since the start in front. It is safe for concurrent use.
type console struct {
	start time.Time
	mu    struct {
		sync.Mutex
		out io.Writer
	}
}

func newConsole(out io.Writer) *console {
	c := &console{start: time.Now()}
	c.mu.out = out
	return c
}

// eventf writes about something that happened.
func (c *console) eventf(format string, args ...any) {
	c.linef("  * "+format, args...)
}

// progress writes one line of numbers.
func (c *console) progress(t tally, waiting int) {
	c.linef("produced %7d   waiting %5d   satisfied %7d   timed out %6d   cancelled %6d   refused %6d",
		t.sent, waiting, t.answered[none], t.answered[requestTimedOut], t.answered[notLeader],
		t.answered[notEnoughReplicas]+t.answered[shuttingDown])
}

func (c *console) linef(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.mu.out, "%5.1fs  %s\n", time.Since(c.start).Seconds(), fmt.Sprintf(format, args...))
}

// listed names the first few partitions, and says how many more there are.
func listed(partitions []topicPartition) string {
	const few = 4
	partitions = slices.SortedFunc(slices.Values(partitions), func(a, b topicPartition) int { return a.Partition - b.Partition })
	var names []string
	for _, tp := range partitions[:min(few, len(partitions))] {
		names = append(names, tp.String())
	}
	if more := len(partitions) - few; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// name is a purgatory's name: what waits in it, and of which broker.
func name(waiting string, broker int) string { return fmt.Sprintf("%s-%d", waiting, broker) }
