package workload

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// expiry measures T2: N timers with delays of 2..3 s, every callback recording its lateness against its exact deadline.
func expiry(r *Run) {
	for round := range r.longRounds() {
		for _, n := range []int{r.Million / 10, r.Million} {
			for _, peer := range timers.Peers() {
				if r.Quick && (n == r.Million || peer.Name != timers.Std && peer.Name != timers.Entry) {
					continue
				}
				r.turn(fmt.Sprintf("T2  round %d  N=%d  %s", round+1, n, peer.Name), func() {
					expiryOne(r, round, n, peer, "T2")
				})
			}
		}
	}
}

func expiryOne(r *Run, round, n int, peer timers.Peer, workload string) {
	params := fmt.Sprintf("G=1/N=%d", n)
	ds := delays(round, n, 2*time.Second, 3*time.Second)
	late := meter.NewLateness(n)
	t := peer.New()
	defer r.tidy(t.Close)
	slots := t.Slots(n, late.Met)
	meter.PrefaultForGrowth()
	s := meter.Start()
	for i, d := range ds {
		late.Due(i, d)
		slots.Add(i, d)
	}
	await(late, 30*time.Second)
	c := s.Stop()
	m := map[string]float64{
		result.CPUSec:   c.CPU.Seconds(),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
	}
	r.addLate(workload, params, peer.Name, round, late, m)
}

// await waits until every deadline is met, or for so long.
func await(late *meter.Lateness, limit time.Duration) {
	select {
	case <-late.Done:
	case <-time.After(limit):
	}
}
