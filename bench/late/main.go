// Command late measures how late a bare timer is when many entries expire within one second, and what processor time that
// takes, round by round: to be run beside an older build of itself, in turn, where a few rounds in a hundred are late by
// hundreds of milliseconds.
//
//	go run ./late -rounds 100
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/timer"
)

// probe is an entry that notes when it has run.
type probe struct {
	timer.TaskEntry
	round  *round
	at, by time.Duration // when it was to run, and when it has
}

type round struct {
	timer *timer.SystemTimer
	left  atomic.Int64
	over  chan struct{}
}

// RunTask implements [timer.Task].
func (p *probe) RunTask(*timer.TaskEntry) {
	p.by = p.round.timer.Now()
	if p.round.left.Add(-1) == 0 {
		close(p.round.over)
	}
}

func main() {
	rounds := flag.Int("rounds", 10, "how many rounds")
	entries := flag.Int("entries", 1_000_000, "how many entries expire within a second, from two seconds on after they were added")
	flag.Parse()
	for n := range *rounds {
		if err := measure(n+1, *entries); err != nil {
			fmt.Fprintln(os.Stderr, "late:", err)
			os.Exit(1)
		}
	}
}

func measure(number, entries int) error {
	t, err := timer.NewSystemTimer()
	if err != nil {
		return err
	}
	t.Start()
	defer t.Stop()
	r := &round{timer: t, over: make(chan struct{})}
	r.left.Store(int64(entries))
	probes := make([]probe, entries)
	before := meter.CPU()
	for i := range probes {
		p := &probes[i]
		p.round = r
		p.Bind(p)
		now := t.Now()
		p.at = now + 2*time.Second + time.Duration(i)*7919%time.Duration(entries)*time.Second/time.Duration(entries)
		if err := t.AddAt(&p.TaskEntry, now, p.at); err != nil {
			return err
		}
	}
	<-r.over
	used := meter.CPU() - before
	late := make([]time.Duration, entries)
	for i := range probes {
		late[i] = probes[i].by - probes[i].at
	}
	slices.Sort(late)
	fmt.Printf("round %d: p50 %v, p99 %v, at most %v late, %v of processor time\n", number, late[entries/2], late[entries*99/100], late[entries-1], used)
	return nil
}
