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
	quit      chan struct{}
	done      sync.WaitGroup
	forced    int64
	lag       time.Duration // how far it was behind when it was told to stop
	turned    atomic.Int64  // number of the last page turned, set under that page's lock
	pages     [calendar]page
}

// calendar is longer than any time to completion, and than what the completer may be behind.
const calendar = 1024

type page struct {
	mu  sync.Mutex
	ops []purgatories.Operation
}

func newCompleter(p purgatories.Purgatory) *completer {
	c := &completer{purgatory: p, quit: make(chan struct{})}
	c.turned.Store(-1)
	return c
}

func (c *completer) start() {
	c.begin = time.Now()
	c.done.Go(c.run)
}

// at ends op at a time, or on the next page when that one has been turned.
func (c *completer) at(when time.Duration, op purgatories.Operation) {
	for {
		number := max(when.Milliseconds(), c.turned.Load()+1)
		pg := &c.pages[number%calendar]
		pg.mu.Lock()
		if c.turned.Load() < number {
			pg.ops = append(pg.ops, op)
			pg.mu.Unlock()
			return
		}
		pg.mu.Unlock()
	}
}

func (c *completer) run() {
	var next int64 // page to turn
	var ops []purgatories.Operation
	last := int64(math.MaxInt64) // and the last one
	nap := time.Millisecond
	for next <= last {
		for now := time.Since(c.begin).Milliseconds(); next <= now; next++ {
			pg := &c.pages[next%calendar]
			pg.mu.Lock()
			ops, pg.ops = pg.ops, ops[:0]
			c.turned.Store(next)
			pg.mu.Unlock()
			for i, op := range ops {
				if c.purgatory.Force(op) {
					c.forced++
				}
				ops[i] = nil
			}
		}
		select {
		case <-c.quit:
			now := time.Since(c.begin)
			c.lag = now - time.Duration(next)*time.Millisecond
			last = (now + requestTimeout).Milliseconds()
			c.quit = nil
			nap = 10 * time.Millisecond // nothing comes any more, and waking up costs more than a request
		default:
		}
		time.Sleep(nap)
	}
}

// stop has the completer end what is still to come, for there is nothing after that, and returns how many operations it
// ended, and how far it was behind when it was told.
func (c *completer) stop() (forced int64, lag time.Duration) {
	close(c.quit)
	c.done.Wait()
	return c.forced, c.lag
}
