package purgatories

import (
	"sync"
	"sync/atomic"
	"time"
)

// callbacks is the purgatory of the careful: a mutex, a map of slices of operations, a time.AfterFunc for each, and a
// compare-and-swap that decides who ends it. An operation that ended stays in the slices of its other keys; so that these
// do not grow for ever, an append that finds a slice twice as long as it was after its last sweep sweeps it.
type callbacks struct {
	mu struct {
		sync.Mutex
		watchers map[string]*callbackList
	}
	pending atomic.Int64
}

type callbackList struct {
	ops   []*callbackOp
	sweep int // length at which the next append sweeps
}

type callbackOp struct {
	lane  *Lane
	probe *Probe // instead of a lane
	timer *time.Timer
	ended atomic.Bool
}

func newCallbacks() Purgatory {
	c := &callbacks{}
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
	// The timer is set before the operation is shared, and cannot be seen unset by whoever finds it in a list.
	op.timer = time.AfterFunc(timeout, func() {
		if c.end(op) {
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
		list.add(op)
	}
	c.mu.Unlock()
	// The second look: what changed between the first and the append was checked without us.
	if op.ready() && c.end(op) {
		op.timer.Stop()
		op.complete()
	}
}

func (l *callbackList) add(op *callbackOp) {
	if len(l.ops) >= l.sweep {
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
		case op.ready() && c.end(op):
			op.timer.Stop()
			op.complete()
		default:
			kept = append(kept, op)
		}
	}
	if len(kept) == 0 {
		return
	}
	clear(list.ops[len(kept):])
	list.ops = kept
	c.mu.Lock()
	// Others may have come meanwhile: ours were first.
	if since := c.mu.watchers[key]; since != nil {
		list.ops = append(list.ops, since.ops...)
	}
	c.mu.watchers[key] = list
	c.mu.Unlock()
	// What became true between the look and the way back was checked without these.
	c.checkAgain(kept)
}

func (c *callbacks) checkAgain(ops []*callbackOp) {
	for _, op := range ops {
		if op.ready() && c.end(op) {
			op.timer.Stop()
			op.complete()
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
	op := o.(*callbackOp)
	if !c.end(op) {
		return false
	}
	op.timer.Stop()
	op.complete()
	return true
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
