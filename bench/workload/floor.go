package workload

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
)

// floorOp is as big as an operation with its user's eight bytes.
type floorOp struct {
	_ [13]uintptr
	p *int
}

// floor measures what a design of an operation's life hardly gets below: allocate the operation, read the clock, one
// uncontended lock pair for the watchers and one for the wheel, look the key up.
func floor(r *Run) meter.Rate {
	var (
		watchers, wheel sync.Mutex
		base            = time.Now()
		lists           = map[string]*int{}
		keys            = keySets(ownKeys, func(i int) []string { return []string{fmt.Sprintf("own-0-%d", i)} })
		next            int
		kept            *floorOp
		deadline        time.Duration
	)
	for _, k := range keys {
		lists[k[0]] = new(int)
	}
	rate := meter.Loop(1, r.Window, 4*batch, func(_, n int) {
		for range n {
			next = (next + 1) % (ownKeys * batch)
			op := new(floorOp)
			deadline = time.Since(base)
			watchers.Lock()
			op.p = lists[keys[next/batch][0]]
			watchers.Unlock()
			wheel.Lock()
			*op.p = next
			wheel.Unlock()
			kept = op
		}
	})
	runtime.KeepAlive(kept)
	_ = deadline // it is written to a variable that outlives the loop, as an operation's is
	return rate
}
