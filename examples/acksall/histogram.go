package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// histogram counts answers by latency, in buckets that double, and draws what share of each bucket had which code.
type histogram struct {
	buckets [22][numCodes]int
}

// firstBound is the upper bound of the first bucket; each further one is twice as wide.
const firstBound = 125 * time.Microsecond

// barWidth is the width in characters of the fullest bucket's bar.
const barWidth = 60

// marks is the character of each code in a bar.
var marks = [numCodes]string{none: "#", requestTimedOut: "T", notLeader: "x", notEnoughReplicas: "r", shuttingDown: "s"}

func (h *histogram) add(latency time.Duration, c code) {
	i := 0
	for bound := firstBound; latency > bound && i < len(h.buckets)-1; bound *= 2 {
		i++
	}
	h.buckets[i][c]++
}

// write draws the buckets from the first that is not empty to the last.
func (h *histogram) write(out io.Writer) {
	first, last, fullest := len(h.buckets), -1, 0
	for i := range h.buckets {
		if n := h.total(i); n > 0 {
			first, last, fullest = min(first, i), i, max(fullest, n)
		}
	}
	for i := first; i <= last; i++ {
		bound := fmt.Sprintf("<= %v", firstBound<<i)
		if i == len(h.buckets)-1 {
			bound = fmt.Sprintf("> %v", firstBound<<(i-1))
		}
		fmt.Fprintf(out, "  %12s %8d %s\n", bound, h.total(i), h.bar(i, fullest))
	}
}

func (h *histogram) total(i int) int {
	n := 0
	for _, count := range h.buckets[i] {
		n += count
	}
	return n
}

// bar draws each code's count in proportion to the fullest bucket; what is there at all is drawn at least one wide.
func (h *histogram) bar(i, fullest int) string {
	var bar strings.Builder
	for c, count := range h.buckets[i] {
		bar.WriteString(strings.Repeat(marks[c], (count*barWidth+fullest-1)/fullest))
	}
	return bar.String()
}
