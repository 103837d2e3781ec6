package workload

import (
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
	if !r.Full {
		sizes = []int{100, 10_000, 1_000_000}
	}
	for _, n := range sizes {
		if n > r.Million {
			continue
		}
		for round := range r.rounds(3) {
			step := func(name, peer string, ordered bool) {
				r.turn(fmt.Sprintf("H1  round %d  N=%d  %s", round+1, n, name), func() { stepOne(r, round, n, name, peer, ordered) })
			}
			step("ours-ordered", purgatories.Ours, true)
			if !r.Full {
				break
			}
			if round > 0 {
				continue // no target refers to those
			}
			step("ours-unordered", purgatories.Ours, false)
			step(purgatories.CB, purgatories.CB, false)
		}
	}
}

type logOf struct {
	purgatory purgatories.Purgatory
	ordered   purgatories.Ordered // nil: every step tries everybody
	steps     []*purgatories.Lane // the waiters of each step that is still to come
	position  int64
}

const logKey = "log"

// arrive adds the waiters of one more step at the end.
func (l *logOf) arrive() {
	lane := purgatories.NewLane()
	lane.Expect(stepSize)
	at := l.position + int64(len(l.steps))*stepSize
	for i := range int64(stepSize) {
		if l.ordered != nil {
			l.ordered.SubmitAt(lane, lifetime, logKey, at+i+1)
		} else {
			l.purgatory.Submit(lane, lifetime, []string{logKey})
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
		l.ordered.CheckUpTo(logKey, l.position)
	} else {
		l.purgatory.Check(logKey)
	}
	took := time.Since(start)
	first.Wait()
	return took
}

func stepOne(r *Run, round, n int, name, peer string, ordered bool) {
	l := &logOf{purgatory: purgatories.ByName(peer).New()}
	defer l.purgatory.Close()
	if ordered {
		l.ordered = l.purgatory.(purgatories.Ordered)
	}
	for range n / stepSize {
		l.arrive()
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
	for start := time.Now(); time.Since(start) < r.Window; steps++ {
		took += l.step()
		l.arrive()
	}
	r.add("H1", fmt.Sprintf("N=%d", n), name, round, steps,
		map[string]float64{result.NsStep: float64(took) / float64(steps)})
}
