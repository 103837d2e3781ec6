package workload

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// floorOp is as big as an operation with its user's eight bytes.
type floorOp struct {
	_ [13]uintptr
	p *int
}

// floorLoop returns the body of what a design of an operation's life hardly gets below: allocate the operation, read the
// clock, one uncontended lock pair for the watchers and one for the wheel, look the key up.
func floorLoop() func(worker, n int) {
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
	return func(_, n int) {
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
		// They are written to variables that outlive the loop, as an operation's are.
		runtime.KeepAlive(kept)
		_ = deadline
	}
}
