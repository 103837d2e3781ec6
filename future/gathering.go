package future

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
)

const (
	bitsPerWord = 64

	// maxAhead is for how many results room is made with the first: most futures
	// want few, and those that want many should not pay for what may never come.
	maxAhead = 8
)

// gathering is the operation behind a future. It is decided once, under mu: (1) by
// the delivery that meets the condition or puts it out of reach, or (2) by the end of
// the operation, if no delivery was first. After (1) somebody else may still be the one
// to end the operation (the timeout, a cancellation), before the deliverer's check
// does; the verdict stands all the same. So what Deliver has taken is what Wait
// returns, whoever wins.
type gathering[V any] struct {
	operation.DelayedOperation
	condition Condition
	timeout   time.Duration // for the error's text
	then      func(results []Result[V], err error)

	// decided is set under mu; TryComplete reads it without.
	decided atomic.Bool

	few [1]uint64 // seen, where there are not more sources
	mu  struct {
		sync.Mutex
		seen    []uint64 // one bit per source that has delivered
		results []Result[V]
		failed  int           // of results
		err     error         // final once decided, as results are
		ended   bool          // done is closed, or will never be needed
		done    chan struct{} // nil until somebody wants to wait
	}
}

// deliver takes a result, unless it comes twice or late, and reports whether this is
// the delivery that decides the future; the caller then has to have the operation
// checked.
func (g *gathering[V]) deliver(r Result[V]) (taken, decides bool) {
	if r.From < 0 || r.From >= g.condition.sources {
		panic(fmt.Sprintf("future: delivery from source %d, there are %d", r.From, g.condition.sources))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	word, bit := &g.mu.seen[r.From/bitsPerWord], uint64(1)<<(r.From%bitsPerWord)
	if g.decided.Load() || *word&bit != 0 {
		return false, false
	}
	*word |= bit
	if g.mu.results == nil {
		g.mu.results = make([]Result[V], 0, min(g.condition.want, maxAhead))
	}
	g.mu.results = append(g.mu.results, r)
	if r.Err != nil {
		g.mu.failed++
	}
	switch {
	case g.condition.met(len(g.mu.results) - g.mu.failed):
		g.decided.Store(true)
	case g.condition.unreachable(g.mu.failed):
		g.mu.err = g.unmetLocked(ErrUnreachable)
		g.decided.Store(true)
	default:
		return true, false
	}
	return true, true
}

// TryComplete is the operation's: a delivery has decided.
func (g *gathering[V]) TryComplete() bool { return g.decided.Load() }

// OnComplete is the operation's. Those who wait are woken before the user's function
// runs, which may take its time, or panic.
func (g *gathering[V]) OnComplete() {
	g.mu.Lock()
	if !g.decided.Load() {
		g.mu.err = g.unmetLocked(g.reason())
		g.decided.Store(true)
	}
	g.mu.ended = true
	if g.mu.done != nil {
		close(g.mu.done)
	}
	results, err := g.mu.results, g.mu.err
	g.mu.Unlock()
	if g.then != nil {
		g.then(results, err)
	}
}

// OnExpiration is the operation's.
func (g *gathering[V]) OnExpiration() {}

// done returns the channel that is closed at the end; it is made for those who ask.
func (g *gathering[V]) done() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.done == nil {
		g.mu.done = make(chan struct{})
		if g.mu.ended {
			close(g.mu.done)
		}
	}
	return g.mu.done
}

func (g *gathering[V]) verdict() ([]Result[V], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.results, g.mu.err
}
