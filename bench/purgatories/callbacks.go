package purgatories

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// callbacks is the purgatory of those who have been bitten by goroutines: a mutex, a map of slices of operations, a
// time.AfterFunc for each, and a compare-and-swap that decides who ends it. It comes in two forms.
//
// The first makes the library's promise, that an operation which has ended is in no list: whoever ends it looks for it in
// the slices of its keys. The lazy one leaves it there; so that slices do not grow for ever, an append that finds one
// twice as long as it was after its last sweep sweeps it. That is cheaper, and keeps ended operations, with what they
// refer to, in memory for as long as nobody appends.
type callbacks struct {
	lazy bool
	mu   struct {
		sync.Mutex
		watchers map[string]*callbackList
	}
	_       [64]byte
	pending tally // for the benchmark: not on the mutex's line
}

type callbackList struct {
	ops   []*callbackOp
	sweep int // length at which the next append sweeps, if lazy
}

type callbackOp struct {
	lane  *Lane
	probe *Probe // instead of a lane
	timer *time.Timer
	keys  []string // nil if lazy
	ended atomic.Bool
}

func newCallbacks() Purgatory     { return makeCallbacks(false) }
func newLazyCallbacks() Purgatory { return makeCallbacks(true) }

func makeCallbacks(lazy bool) *callbacks {
	c := &callbacks{lazy: lazy}
	c.mu.watchers = map[string]*callbackList{}
	return c
}

func (c *callbacks) Submit(l *Lane, timeout time.Duration, keys []string) Operation {
	op := &callbackOp{lane: l}
	c.submit(op, timeout, keys)
	return op
}

func (c *callbacks) Settle(*Lane) {}

func (c *callbacks) Probe(p *Probe, timeout time.Duration, keys []string) {
	c.submit(&callbackOp{probe: p}, timeout, keys)
}

func (c *callbacks) submit(op *callbackOp, timeout time.Duration, keys []string) {
	c.pending.Add(1)
	if op.ready() && c.end(op) {
		op.complete()
		return
	}
	if !c.lazy {
		op.keys = keys
	}
	// The timer is set before the operation is shared, and cannot be seen unset by whoever finds it in a list.
	op.timer = time.AfterFunc(timeout, func() {
		if c.end(op) {
			c.leave(op, "")
			op.expire()
		}
	})
	c.mu.Lock()
	for _, key := range keys {
		list := c.mu.watchers[key]
		if list == nil {
			list = &callbackList{sweep: 16}
			c.mu.watchers[key] = list
		}
		list.add(op, c.lazy)
	}
	c.mu.Unlock()
	// The second look: what changed between the first and the append was checked without us.
	if op.ready() {
		c.complete(op, "")
	}
	if op.ended.Load() {
		c.leave(op, "") // it may have expired before it was appended
	}
}

// leave takes an operation that has ended out of the slices of its keys, but for the one that the caller has in hand.
func (c *callbacks) leave(op *callbackOp, inHand string) {
	if c.lazy || len(op.keys) == 0 || len(op.keys) == 1 && op.keys[0] == inHand {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range op.keys {
		list := c.mu.watchers[key]
		if key == inHand || list == nil {
			continue
		}
		if i := slices.Index(list.ops, op); i >= 0 {
			list.ops = slices.Delete(list.ops, i, i+1)
		}
		if len(list.ops) == 0 {
			delete(c.mu.watchers, key)
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
	op.complete()
	return true
}

func (l *callbackList) add(op *callbackOp, lazy bool) {
	if lazy && len(l.ops) >= l.sweep {
		kept := l.ops[:0]
		for _, o := range l.ops {
			if !o.ended.Load() {
				kept = append(kept, o)
			}
		}
		clear(l.ops[len(kept):])
		l.ops = kept
		l.sweep = max(16, 2*len(kept))
	}
	l.ops = append(l.ops, op)
}

func (c *callbacks) Check(key string) {
	c.mu.Lock()
	list := c.mu.watchers[key]
	if list == nil {
		c.mu.Unlock()
		return
	}
	delete(c.mu.watchers, key)
	c.mu.Unlock()
	kept := list.ops[:0]
	for _, op := range list.ops {
		switch {
		case op.ended.Load():
		case op.ready() && c.complete(op, key):
		default:
			kept = append(kept, op)
		}
	}
	if len(kept) == 0 {
		return
	}
	clear(list.ops[len(kept):])
	list.ops = kept
	again := slices.Clone(kept)
	c.mu.Lock()
	// Others may have come meanwhile: ours were first.
	if since := c.mu.watchers[key]; since != nil {
		list.ops = append(list.ops, since.ops...)
	}
	c.mu.watchers[key] = list
	c.mu.Unlock()
	// What became true between the look and the way back was checked without these; who ended meanwhile did not find
	// itself in the slice.
	c.checkAgain(again)
}

func (c *callbacks) checkAgain(ops []*callbackOp) {
	for _, op := range ops {
		if op.ready() {
			c.complete(op, "")
		}
		if op.ended.Load() {
			c.leave(op, "")
		}
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

func (c *callbacks) Force(o Operation) bool {
	return c.complete(o.(*callbackOp), "")
}

func (c *callbacks) Pending() int { return int(c.pending.Load()) }
func (c *callbacks) Stale() int   { return -1 }

func (c *callbacks) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range c.mu.watchers {
		for _, op := range list.ops {
			op.timer.Stop()
		}
	}
	clear(c.mu.watchers)
}

func (op *callbackOp) ready() bool { return op.lane != nil && op.lane.Ready() }

func (op *callbackOp) complete() {
	if op.lane != nil {
		op.lane.Complete()
	}
}

func (op *callbackOp) expire() {
	if op.probe != nil {
		op.probe.Expire()
		return
	}
	op.lane.Expired.Add(1)
}
