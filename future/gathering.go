package future

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

const (
	bitsPerWord = 64

	// maxAhead bounds the number of results for which the first delivery allocates
	// memory. Most futures want few results, and one that wants many may never get them.
	maxAhead = 8
)

// gathering is the operation behind a future. It is decided once, under mu:
//
//  1. by the delivery that meets the condition or makes it unreachable, or
//  2. by the end of the operation, if there was no such delivery before.
//
// After 1, the timeout or a cancellation may still end the operation before the check
// of the delivering goroutine does. The verdict stays the same. So the results that
// Deliver has taken are the results that Wait returns, in every order of events.
type gathering[V any] struct {
	operation.DelayedOperation
	condition Condition
	timeout   time.Duration                        // for the text of an error
	then      func(results []Result[V], err error) // the function of GatherFunc, or nil

	// decided is set under mu. TryComplete reads it without mu.
	decided sched.Bool

	few [1]uint64 // the memory of seen if there are at most 64 sources
	mu  struct {
		sched.Mutex
		seen    []uint64      // one bit per source, set when it has delivered
		results []Result[V]   // final once decided is set
		failed  int           // number of failures among results
		err     error         // final once decided is set
		ended   bool          // the operation has ended
		done    chan struct{} // closed when ended is set; nil until a goroutine asks for it
	}
}

// deliver takes a result, unless it is a duplicate or comes too late. It reports whether
// this delivery decides the future; if so, the caller must check the operation.
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

// TryComplete reports whether a delivery has decided the future.
func (g *gathering[V]) TryComplete() bool { return g.decided.Load() }

// OnComplete closes done and then runs the user's function, in this order because the
// function may take long, or panic. No lock is held while the function runs.
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

// OnlyWakes implements [machine.Waker]: a function of the user's may block.
func (g *gathering[V]) OnlyWakes() bool { return g.then == nil }

// OnExpiration does nothing: OnComplete has handled the expiry.
func (g *gathering[V]) OnExpiration() {}

// done returns the channel that is closed when the operation has ended. The first call
// makes it, so that a future without Done or Wait allocates no channel.
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
