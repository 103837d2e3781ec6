package workload

import (
	"cmp"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

const stepSize = 10 // waiters that one step satisfies

// thresholds measures H1: N operations wait on one key for a position in a log; a step of the log satisfies ten of them,
// and ten new ones come to the end, outside the clock. Beside the ordered step: the same step as a check of everybody.
func thresholds(r *Run) {
	sizes := []int{100, 1_000, 10_000, 100_000, 1_000_000}
	peers := []string{oursOrdered, oursUnordered, purgatories.CB, purgatories.Timers}
	if r.Quick {
		sizes, peers = []int{100, 10_000, 1_000_000}, peers[:1]
	}
	for _, n := range sizes {
		if n <= r.Million {
			r.each(fmt.Sprintf("H1  N=%d", n), r.longRounds(), peers, func(round int, peer string) { stepOne(r, round, n, peer) })
		}
	}
}

// The library with positions, and without.
const (
	oursOrdered   = purgatories.Ours + "-ordered"
	oursUnordered = purgatories.Ours + "-unordered"
)

type logOf struct {
	purgatory purgatories.Purgatory
	ordered   purgatories.Ordered // nil: every step tries everybody
	steps     []*purgatories.Lane // the waiters of each step that is still to come
	position  int64
}

var logKeys = []string{"log"}

// arrive adds the waiters of one more step at the end.
func (l *logOf) arrive() {
	lane := purgatories.NewLane()
	lane.Expect(stepSize)
	at := l.position + int64(len(l.steps))*stepSize
	for i := range int64(stepSize) {
		if l.ordered != nil {
			l.ordered.SubmitAt(lane, lifetime, logKeys[0], at+i+1)
		} else {
			l.purgatory.Submit(lane, lifetime, logKeys)
		}
	}
	l.steps = append(l.steps, lane)
}

// step moves the log past the first ten waiters and returns how long their completion took.
func (l *logOf) step() time.Duration {
	first := l.steps[0]
	l.steps = l.steps[1:]
	l.position += stepSize
	first.Arrive()
	start := time.Now()
	if l.ordered != nil {
		l.ordered.CheckUpTo(logKeys[0], l.position)
	} else {
		l.purgatory.Check(logKeys[0])
	}
	took := time.Since(start)
	first.Wait()
	return took
}

func stepOne(r *Run, round, n int, peer string) {
	name := map[string]string{oursOrdered: purgatories.Ours, oursUnordered: purgatories.Ours}[peer]
	l := &logOf{purgatory: purgatories.New(cmp.Or(name, peer))}
	if peer != oursUnordered {
		l.ordered, _ = l.purgatory.(purgatories.Ordered)
	}
	for range n / stepSize {
		l.arrive()
	}
	if n >= r.Million/10 {
		r.rest(l.purgatory)
	}
	meter.PrefaultForGrowth()
	for range 20 {
		l.step()
		l.arrive()
	}
	var (
		took  time.Duration
		steps int64
	)
	s := meter.Start()
	for start := time.Now(); steps == 0 || time.Since(start) < r.Window; steps++ { // one at least, however slow the machine
		took += l.step()
		l.arrive()
	}
	c := s.Stop()
	r.add("H1", fmt.Sprintf("N=%d", n), peer, round, steps, map[string]float64{
		result.NsStep:   float64(took) / float64(steps),
		result.AllocsOp: float64(c.Mallocs) / float64(steps*stepSize), // of a waiter, from its arrival to its end
	})
}
