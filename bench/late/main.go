// Command late measures how late a bare timer is, or a purgatory, when many entries expire within one second, and what
// processor time that takes, round by round: to be run beside an older build of itself, in turn, where a few rounds in a
// hundred are late by hundreds of milliseconds.
//
//	go run ./late -rounds 100
//	go run ./late -rounds 100 -operations
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// lateness is by how much each has run after its time.
type lateness struct {
	of   []time.Duration
	left atomic.Int64
	over chan struct{}
}

func (l *lateness) note(n int, late time.Duration) {
	l.of[n] = late
	if l.left.Add(-1) == 0 {
		close(l.over)
	}
}

// probe is an entry that notes when it runs.
type probe struct {
	timer.TaskEntry
	timer *timer.SystemTimer
	to    *lateness
	n     int
	at    time.Duration
}

// RunTask implements [timer.Task].
func (p *probe) RunTask(*timer.TaskEntry) { p.to.note(p.n, p.timer.Now()-p.at) }

// request is an operation that notes when it expires.
type request struct {
	operation.DelayedOperation
	to *lateness
	n  int
	at time.Time
}

func (*request) TryComplete() bool { return false }
func (*request) OnComplete()       {}
func (r *request) OnExpiration()   { r.to.note(r.n, time.Since(r.at)) }

func main() {
	rounds := flag.Int("rounds", 10, "how many rounds")
	entries := flag.Int("entries", 1_000_000, "how many entries expire within a second, from two seconds on after they were added")
	operations := flag.Bool("operations", false, "operations of a purgatory, under 1,000 keys, instead of entries of a timer")
	flag.Parse()
	add := timers
	if *operations {
		add = requests
	}
	for n := range *rounds {
		if err := measure(n+1, *entries, add); err != nil {
			fmt.Fprintln(os.Stderr, "late:", err)
			os.Exit(1)
		}
	}
}

func measure(number, entries int, add func(*lateness) (end func(), err error)) error {
	l := &lateness{of: make([]time.Duration, entries), over: make(chan struct{})}
	l.left.Store(int64(entries))
	before := meter.CPU()
	end, err := add(l)
	if err != nil {
		return err
	}
	defer end()
	<-l.over
	used := meter.CPU() - before
	slices.Sort(l.of)
	fmt.Printf("round %d: p50 %v, p99 %v, at most %v late, %v of processor time\n",
		number, l.of[entries/2], l.of[entries*99/100], l.of[entries-1], used)
	return nil
}

// timeout spreads n of all over a second, not in order.
func timeout(n, all int) time.Duration {
	return 2*time.Second + time.Duration(n)*7919%time.Duration(all)*time.Second/time.Duration(all)
}

func timers(l *lateness) (end func(), err error) {
	t, err := timer.NewSystemTimer()
	if err != nil {
		return nil, err
	}
	t.Start()
	probes := make([]probe, len(l.of))
	for n := range probes {
		p := &probes[n]
		*p = probe{timer: t, to: l, n: n}
		p.Bind(p)
		now := t.Now()
		p.at = now + timeout(n, len(probes))
		if err := t.AddAt(&p.TaskEntry, now, p.at); err != nil {
			t.Stop()
			return nil, err
		}
	}
	return func() { t.Stop() }, nil
}

func requests(l *lateness) (end func(), err error) {
	p, err := purgatory.New[int]("late")
	if err != nil {
		return nil, err
	}
	for n := range l.of {
		d := timeout(n, len(l.of))
		if _, err := p.TryCompleteElseWatch(&request{to: l, n: n, at: time.Now().Add(d)}, d, n%1000); err != nil {
			_ = p.Close()
			return nil, err
		}
	}
	return func() { _ = p.Close() }, nil
}
