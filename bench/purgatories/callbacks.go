package purgatories

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// callbacks is the purgatory of those who have been bitten by goroutines: a mutex, a map of slices of operations, a
// time.AfterFunc for each, and a compare-and-swap that decides who ends it. It makes the library's promise that an
// operation which has ended is in no list: whoever ends it looks for it in the slices of its keys.
type callbacks struct {
	mu struct {
		sync.Mutex
		watchers map[string][]*callbackOp
	}
	_       [64]byte
	pending tally // for the benchmark: not on the mutex's line
}

type callbackOp struct {
	lane  *Lane
	timer *time.Timer
	keys  []string
	ended atomic.Bool
}

func newCallbacks() *callbacks {
	c := new(callbacks)
	c.mu.watchers = map[string][]*callbackOp{}
	return c
}

func (c *callbacks) Submit(l *Lane, timeout time.Duration, keys []string) Operation {
	op := &callbackOp{lane: l, keys: keys}
	c.pending.Add(1)
	if l.Ready() && c.end(op) {
		l.Complete()
		return op
	}
	// The timer is set before the operation is shared, and cannot be seen unset by whoever finds it in a list.
	op.timer = time.AfterFunc(timeout, func() {
		if c.end(op) {
			c.leave(op, "")
			l.Expire()
		}
	})
	c.mu.Lock()
	for _, key := range keys {
		c.mu.watchers[key] = append(c.mu.watchers[key], op)
	}
	c.mu.Unlock()
	c.lookAgain(op)
	return op
}

// lookAgain is the second look at an operation that has come into its slices: what changed before was checked without it,
// and if it ended before it did not find itself in them.
func (c *callbacks) lookAgain(op *callbackOp) {
	if op.lane.Ready() {
		c.complete(op, "")
	}
	if op.ended.Load() {
		c.leave(op, "")
	}
}

// leave takes an operation that has ended out of the slices of its keys, but for the one that the caller has in hand.
func (c *callbacks) leave(op *callbackOp, inHand string) {
	if len(op.keys) == 0 || len(op.keys) == 1 && op.keys[0] == inHand {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range op.keys {
		list := c.mu.watchers[key]
		i := slices.Index(list, op)
		switch {
		case key == inHand || i < 0:
		case len(list) == 1:
			delete(c.mu.watchers, key)
		default:
			c.mu.watchers[key] = slices.Delete(list, i, i+1)
		}
	}
}

// complete ends the operation, if nobody has, and says whether it did.
func (c *callbacks) complete(op *callbackOp, inHand string) bool {
	if !c.end(op) {
		return false
	}
	op.timer.Stop()
	c.leave(op, inHand)
	op.lane.Complete()
	return true
}

func (c *callbacks) Check(key string) {
	c.mu.Lock()
	list := c.mu.watchers[key]
	delete(c.mu.watchers, key)
	c.mu.Unlock()
	kept := list[:0]
	for _, op := range list {
		switch {
		case op.ended.Load():
		case op.lane.Ready() && c.complete(op, key):
		default:
			kept = append(kept, op)
		}
	}
	if len(kept) == 0 {
		return
	}
	clear(list[len(kept):])
	again := slices.Clone(kept)
	c.mu.Lock()
	// Others may have come meanwhile: ours were first.
	c.mu.watchers[key] = append(kept, c.mu.watchers[key]...)
	c.mu.Unlock()
	for _, op := range again {
		c.lookAgain(op)
	}
}

// end decides who ends the operation.
func (c *callbacks) end(op *callbackOp) bool {
	if !op.ended.CompareAndSwap(false, true) {
		return false
	}
	c.pending.Add(-1)
	return true
}

func (c *callbacks) Settle(*Lane)           {}
func (c *callbacks) Force(o Operation) bool { return c.complete(o.(*callbackOp), "") }
func (c *callbacks) Pending() int           { return int(c.pending.Load()) }
func (c *callbacks) Close()                 {}
