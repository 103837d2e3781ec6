package workload

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/purgatories"
)

// completer plays the other brokers of the open loop: it ends operations at the times they are given. It is a calendar of
// one millisecond a page, cheap enough not to be what is measured. at is called by one goroutine.
type completer struct {
	purgatory purgatories.Purgatory
	begin     time.Time
	stopped   atomic.Bool
	done      sync.WaitGroup
	forced    int64
	lag       time.Duration // how far it was behind when it was told to stop

	mu struct {
		sync.Mutex
		turned int64 // number of the last page turned
		pages  [calendar][]purgatories.Operation
	}
}

// calendar is longer than any time to completion, and than what the completer may be behind.
const calendar = 1024

func newCompleter(p purgatories.Purgatory) *completer {
	c := &completer{purgatory: p}
	c.mu.turned = -1
	return c
}

func (c *completer) start() {
	c.begin = time.Now()
	c.done.Go(c.run)
}

// at ends op at a time, or on the next page when that one has been turned.
func (c *completer) at(when time.Duration, op purgatories.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	page := &c.mu.pages[max(when.Milliseconds(), c.mu.turned+1)%calendar]
	*page = append(*page, op)
}

func (c *completer) run() {
	var next int64 // page to turn
	var ops []purgatories.Operation
	last := int64(math.MaxInt64) // and the last one
	nap := time.Millisecond
	for next <= last {
		for now := time.Since(c.begin).Milliseconds(); next <= now; next++ {
			page := &c.mu.pages[next%calendar]
			c.mu.Lock()
			ops, *page = *page, ops[:0]
			c.mu.turned = next
			c.mu.Unlock()
			for i, op := range ops {
				if c.purgatory.Force(op) {
					c.forced++
				}
				ops[i] = nil
			}
		}
		if c.stopped.Load() && last == math.MaxInt64 {
			now := time.Since(c.begin)
			c.lag = now - time.Duration(next)*time.Millisecond
			last = (now + requestTimeout).Milliseconds()
			nap = 10 * time.Millisecond // nothing comes any more, and waking up costs more than a request
		}
		time.Sleep(nap)
	}
}

// stop has the completer end what is still to come, for there is nothing after that, and returns how many operations it
// ended, and how far it was behind when it was told.
func (c *completer) stop() (forced int64, lag time.Duration) {
	c.stopped.Store(true)
	c.done.Wait()
	return c.forced, c.lag
}
