package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayedop/purgatory/examples/internal/program"
)

// ledger is what the producers know: which produce is open, and how each was answered. It finds the produce that is answered
// twice or never. It is safe for concurrent use.
type ledger struct {
	mu struct {
		sync.Mutex
		late         []time.Duration           // timeouts past their deadline
		latency      [numCodes][]time.Duration // from sending a produce to its answer, by code
		tally        tally
		open         map[int64]openProduce
		twice        []int64 // produces whose answer came when they were open no more
		acknowledged []acknowledged
	}
}

// tally is how many produces were sent, how many of them have no answer, and how many were answered with each code.
type tally struct {
	sent     int64
	open     int
	answered [numCodes]int64
}

func (t tally) String() string {
	a := t.answered
	return fmt.Sprintf("produced %7d   waiting %5d   satisfied %7d   timed out %6d   cancelled %6d",
		t.sent, t.open, a[none], a[requestTimedOut], a[notLeader])
}

// openProduce is a produce without an answer, and acknowledged a record that the producer was told is safe.
type (
	openProduce struct {
		sentAt  time.Time
		records []newRecord
	}
	acknowledged struct {
		newRecord
		offset int64
	}
)

func newLedger() *ledger {
	l := new(ledger)
	l.mu.open = make(map[int64]openProduce)
	return l
}

// open enters a produce that is about to be sent, and returns its ID.
func (l *ledger) open(records []newRecord, now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.tally.sent++
	l.mu.open[l.mu.tally.sent] = openProduce{now, records}
	return l.mu.tally.sent
}

// answer enters the answer to a produce.
func (l *ledger) answer(r produceResponse, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.mu.open[r.ID]
	if !ok {
		l.mu.twice = append(l.mu.twice, r.ID)
		return
	}
	delete(l.mu.open, r.ID)
	l.mu.tally.answered[r.Code]++
	l.mu.latency[r.Code] = append(l.mu.latency[r.Code], now.Sub(p.sentAt))
	for i, offset := range r.Offsets {
		l.mu.acknowledged = append(l.mu.acknowledged, acknowledged{p.records[i], offset})
	}
}

// expired enters how late a timeout was.
func (l *ledger) expired(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.late = append(l.mu.late, late)
}

func (l *ledger) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.tally.open = len(l.mu.open)
	return l.mu.tally
}

// report writes how produces ended and how long that took. It is called after the run.
func (l *ledger) report(out io.Writer) {
	t := l.tally()
	fmt.Fprintln(out, "\nfrom sending a produce to its answer:")
	for c := range numCodes {
		if n := t.answered[c]; n > 0 {
			fmt.Fprintf(out, "%-22v %8d  %5.1f %%   %s\n", c, n, 100*float64(n)/float64(t.sent), program.Spread(l.mu.latency[c]))
		}
	}
	fmt.Fprintf(out, "%-22v %8d\ntimeouts past their deadline: %s\n\n", "produced", t.sent, program.Spread(l.mu.late))
}

// verify compares what producers were told with what the brokers hold, after all has been stopped: some produce answered, every
// produce exactly once, no timeout before its time, and every acknowledged record on every in-sync replica. It returns what is
// broken.
func (l *ledger) verify(c *cluster) (broken []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.tally.sent == int64(len(l.mu.open)) {
		broken = append(broken, "no produce was answered: nothing happened that could show anything")
	}
	if n := len(l.mu.open); n > 0 {
		broken = append(broken, fmt.Sprintf("%d produces were never answered", n))
	}
	if n := len(l.mu.twice); n > 0 {
		broken = append(broken, fmt.Sprintf("%d produces were answered more than once, the first of them produce %d", n, l.mu.twice[0]))
	}
	if all := l.mu.late; len(all) > 0 && slices.Min(all) < 0 {
		broken = append(broken, fmt.Sprintf("a timeout was answered %v before its time", -slices.Min(all)))
	}
	lost, leaders := make([][]string, len(c.brokers)), c.leaders()
	for _, a := range l.mu.acknowledged {
		for id := range c.brokers[leaders[a.Partition]].replicas[a.Partition].mu.leadership.insync {
			log := c.brokers[id].replicas[a.Partition].mu.records
			if a.offset >= int64(len(log)) || log[a.offset] != a.Value {
				lost[id] = append(lost[id], fmt.Sprintf("%q at %v offset %d", a.Value, a.Partition, a.offset))
			}
		}
	}
	for id, records := range lost {
		if len(records) > 0 {
			broken = append(broken, fmt.Sprintf("broker %d is in sync but lacks %d acknowledged records, first %s",
				id, len(records), strings.Join(records[:1], "")))
		}
	}
	return broken
}
