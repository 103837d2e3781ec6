package programs

import (
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/machine"
)

// maxWheels is the largest number of shards of a program's timer.
const maxWheels = 4

// memory has operations on each shard of a timer. The shard is a hash of the address, so a run repeats
// itself only if its operations lie on the shards that the program says. One run at a time uses it.
var memory [maxWheels][]*waiter

// newWaiter returns a new operation of w.
func (w *world) newWaiter(i int) *waiter {
	o := new(waiter)
	if w.wheels > 1 {
		o = w.onWheel(w.ops[i].wheel)
	}
	*o = waiter{w: w, id: i, op: &w.ops[i], client: newClient(w.ops[i].strange), travels: w.travels(i)}
	return o
}

// onWheel returns memory for an operation on a shard of the timer.
func (w *world) onWheel(shard int) *waiter {
	if memory[0] == nil {
		all := make([]waiter, 4096)
		for i := range all {
			at := shardOfTimer(&all[i], maxWheels)
			memory[at] = append(memory[at], &all[i])
		}
	}
	w.placed++
	some := memory[shard] // if the timer has two shards, those of shard 1 of four are on shard 1 of two
	return some[w.placed%len(some)]
}

// shardOfTimer returns the shard of an operation's entry in a timer with n shards. The entry is the
// first field of the machine, so the conversion of the pointer is safe.
func shardOfTimer(o *waiter, n int) int {
	e := (*entry.Entry)(unsafe.Pointer(machine.Of(o)))
	return int(e.OperationBinding(0) & uint64(n-1))
}
