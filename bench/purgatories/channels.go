package purgatories

import (
	"sync"
	"sync/atomic"
	"time"
)

// channels is the purgatory that most Go programs start with: a goroutine per request, in a select on the broadcast
// channels of its keys and a time.NewTimer. A check closes the key's channel and puts nothing in its place until somebody
// waits again.
type channels struct {
	mu struct {
		sync.Mutex
		broadcast map[string]chan struct{}
	}
	pending atomic.Int64
}

type channelOp struct {
	lane   *Lane
	forced chan struct{}
	ended  atomic.Bool
}

func newChannels() Purgatory {
	c := new(channels)
	c.mu.broadcast = map[string]chan struct{}{}
	return c
}

func (c *channels) Submit(l *Lane, timeout time.Duration, keys []string) Operation {
	op := &channelOp{lane: l, forced: make(chan struct{})}
	c.pending.Add(1)
	go c.wait(op, timeout, keys)
	return op
}

// Settle waits for the goroutines: a request that has not got as far as its select when the condition becomes true would
// not be measured waiting.
func (c *channels) Settle(l *Lane) { <-l.batch.all }

// wait is the goroutine of one request. It knows up to three keys; a nil channel is never ready.
func (c *channels) wait(op *channelOp, timeout time.Duration, keys []string) {
	defer c.pending.Add(-1)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for first := true; ; first = false {
		var changed [3]chan struct{}
		c.mu.Lock()
		for i, key := range keys {
			ch := c.mu.broadcast[key]
			if ch == nil {
				ch = make(chan struct{})
				c.mu.broadcast[key] = ch
			}
			changed[i] = ch
		}
		c.mu.Unlock()
		if op.lane.Ready() {
			if op.ended.CompareAndSwap(false, true) {
				op.lane.CompleteElsewhere()
			}
			return
		}
		if first {
			op.lane.Park()
		}
		select {
		case <-changed[0]:
		case <-changed[1]:
		case <-changed[2]:
		case <-op.forced:
			return
		case <-timer.C:
			if op.ended.CompareAndSwap(false, true) {
				op.lane.Expire()
			}
			return
		}
	}
}

func (c *channels) Check(key string) {
	c.mu.Lock()
	ch := c.mu.broadcast[key]
	delete(c.mu.broadcast, key)
	c.mu.Unlock()
	if ch != nil {
		close(ch)
	}
}

func (c *channels) Force(o Operation) bool {
	op := o.(*channelOp)
	if !op.ended.CompareAndSwap(false, true) {
		return false
	}
	close(op.forced)
	op.lane.Complete()
	return true
}

func (c *channels) Pending() int { return int(c.pending.Load()) }
func (c *channels) Close()       {}
