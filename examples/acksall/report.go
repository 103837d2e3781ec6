package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report writes the closing tables: how produces ended and how long that took, how late timeouts were, what the purgatories
// did, and the latencies as a histogram.
func report(out io.Writer, l *ledger, c *cluster) {
	writeOutcomes(out, l)
	writeLateness(out, c.lateness().sorted())
	writePurgatories(out, c.purgatories())
	writeHistogram(out, l)
}

func writeOutcomes(out io.Writer, l *ledger) {
	t := l.tally()
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\noutcome\tcount\tshare\tp50\tp99\tmax\t\n")
	for c := range numCodes {
		n := t.answered[c]
		if n == 0 && c > notLeader {
			continue
		}
		latency := l.latency[c].sorted()
		fmt.Fprintf(w, "%v\t%d\t%.1f %%\t%s\t%s\t%s\t\n", c, n, 100*float64(n)/float64(max(1, t.sent)),
			short(latency, 50), short(latency, 99), short(latency, 100))
	}
	fmt.Fprintf(w, "produced\t%d\t\t\t\t\t\n", t.sent)
	w.Flush()
}

func writeLateness(out io.Writer, late []time.Duration) {
	if len(late) == 0 {
		fmt.Fprint(out, "\ntimeouts past their deadline: there were none\n")
		return
	}
	fmt.Fprintf(out, "\ntimeouts past their deadline: min %s   p50 %s   p99 %s   max %s\n",
		short(late, 0), short(late, 50), short(late, 99), short(late, 100))
}

// short is a percentile, rounded to what the eye takes in; a dash where nothing was measured.
func short(sorted []time.Duration, percent float64) string {
	if len(sorted) == 0 {
		return "-"
	}
	d := percentile(sorted, percent)
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func writePurgatories(out io.Writer, all []*partitionPurgatory) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\npurgatory\taccepted\tsatisfied\texpired\tcancelled\tclosed\tpending\tchecks\twasted\tpurges\tpurged\t\n")
	for _, p := range all {
		s := p.Stats()
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", p.Name(), s.Accepted,
			s.Satisfied, s.Expired, s.Cancelled, s.Closed, s.Pending, s.Checks, s.WastedChecks, s.Purges, s.Purged)
	}
	w.Flush()
}

func writeHistogram(out io.Writer, l *ledger) {
	var h histogram
	for c := range numCodes {
		for _, latency := range l.latency[c].sorted() {
			h.add(latency, c)
		}
	}
	fmt.Fprint(out, "\nlatency from sending a produce to its answer (# satisfied, T timed out, x cancelled, r refused)\n")
	h.write(out)
	fmt.Fprintln(out)
}
