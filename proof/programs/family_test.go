//go:build interleave

package programs

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
)

// small is a small program that is not one of operations. Setup is that of an
// [explore.Exploration].
type small struct {
	text  string
	setup func(spawn func(string, func())) (check func() error)
}

// runFamily draws programs of a family, for a sixth of the time of the flag -for, or repeats
// what a failure of the family has printed.
func runFamily(t *testing.T, name string, draw func(d *drawer) small) {
	of := func(seed uint64) (string, explore.Exploration) {
		s := draw(&drawer{Rand: rand.New(rand.NewPCG(seed, 2))})
		return s.text, explore.Exploration{Setup: s.setup}
	}
	if *one != "" {
		replayFamily(t, name, of)
		return
	}
	seed := *first
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	began, programs, ran, distinct := time.Now(), 0, 0, 0
	for ; time.Since(began) < *duration/6; seed++ {
		text, e := of(seed)
		r := e.Random(seed, *schedules)
		programs++
		ran += r.Schedules
		distinct += r.Distinct
		if r.Failure != nil {
			schedules := r.Schedules
			r = e.Shrink(r)
			t.Errorf("%v\n%vschedule %d of it; once more, with its steps:\n  make explore ARGS='-replay %s/%d/%s'",
				r.Failure, text, schedules, name, seed, r.Schedule)
			break
		}
	}
	t.Logf("%s: %d programs, %d schedules, %d of them distinct, in %.0f s", name, programs, ran, distinct, time.Since(began).Seconds())
}

func replayFamily(t *testing.T, name string, of func(seed uint64) (string, explore.Exploration)) {
	rest, ok := strings.CutPrefix(*one, name+"/")
	if !ok {
		t.Skip("the replay is of another family")
	}
	var seed uint64
	word, schedule, _ := strings.Cut(rest, "/")
	if _, err := fmt.Sscan(word, &seed); err != nil {
		t.Fatal(err)
	}
	text, e := of(seed)
	r := e.Replay(schedule)
	t.Log(text + strings.Join(r.Steps, "\n"))
	if r.Failure != nil {
		t.Error(r.Failure)
	}
}

// keysOf returns a key on each of the p's n shards.
func keysOf(p *purgatory.DelayedOperationPurgatory[int], n int) (keys []int) {
	for key := 0; len(keys) < n; key++ {
		if shardOf(p, key, n) == len(keys) {
			keys = append(keys, key)
		}
	}
	return keys
}

// shardOf returns the shard of a key among p's n shards.
func shardOf(p *purgatory.DelayedOperationPurgatory[int], key, n int) int {
	return int(maphash.Comparable(seedOf(p), key) & uint64(n-1))
}
