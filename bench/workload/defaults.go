package workload

import (
	"fmt"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/timers"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// defaults measures what the library's defaults were chosen by: D1, D1w and D1x are T1, T1w and T2, all near enough to be
// placed at once, over sizes of the wheel; D2 is P1 and P2 over numbers of shards.
func defaults(r *Run) {
	for round := range r.longRounds() {
		for _, size := range []int{20, 64, 256, 512} {
			r.turn(fmt.Sprintf("D1  round %d  wheel size %d", round+1, size), func() { wheelSize(r, round, size) })
		}
		for _, shards := range []int{1, 4, 16, 64} {
			r.turn(fmt.Sprintf("D2  round %d  shards %d", round+1, shards), func() { shardCount(r, round, shards) })
		}
	}
}

func wheelSize(r *Run, round, size int) {
	peer := timers.EntryWith(fmt.Sprintf("size-%d", size), timer.WithWheelSize(size))
	addCancelOne(r, round, r.Million, peer, "D1", near)
	if round == 0 && r.Million >= Million { // over three seconds, which a test has not got
		expiryOne(r, round, r.Million, peer, "D1x")
	}
}

func shardCount(r *Run, round, shards int) {
	p := purgatories.OursWith("", purgatory.WithWatcherShards(shards), purgatory.WithTimerOptions(timer.WithShards(shards))).New()
	defer p.Close()
	for _, g := range []int{1, 2} {
		for _, keys := range []int{1, 3} {
			params := fmt.Sprintf("G=%d/keys=%d", g, keys)
			r.addRate("D2", params, fmt.Sprintf("shards-%d", shards), round, lives(r.Window, p, g, keys))
		}
	}
}
