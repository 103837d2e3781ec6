// Package claims is the recipe of docs/many-processes.md: of the workers that wait for the jobs of
// a queue, one in each process looks in the engine when a hint comes. It is there to be copied; the
// tests of signals, plugin/nats and plugin/postgres run it.
package claims

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// Claims hands out the jobs of an engine. It is the Waiters of a Runner, and safe for concurrent use.
type Claims struct {
	waiting *purgatory.Purgatory[string]                                             // workers, by queue; WithFirstInFirstOut
	look    func(ctx context.Context, queue string) (job int, found bool, err error) // claims a job, in one transaction

	mu    sync.Mutex
	quiet map[string]bool // somebody has begun to look since the last hint
}

// New returns a Claims of the workers that wait in p, which look in the engine with look.
func New(p *purgatory.Purgatory[string], look func(ctx context.Context, queue string) (job int, found bool, err error)) *Claims {
	return &Claims{waiting: p, look: look, quiet: make(map[string]bool)}
}

// Claim waits until this worker has a job of queue.
func (c *Claims) Claim(ctx context.Context, timeout time.Duration, queue string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, purgatory.ErrExpired)
	defer cancel()
	for {
		if err := c.waiting.Await(ctx, purgatory.NoTimeout, func() bool { return c.turn(queue) }, queue); err != nil {
			return 0, err
		}
		if job, found, err := c.lookOnce(ctx, queue); found || err != nil {
			return job, err
		}
	}
}

// turn takes the reason to look, if there is one.
func (c *Claims) turn(queue string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quiet[queue] {
		return false
	}
	c.quiet[queue] = true
	return true
}

// lookOnce has the next in line look, too, unless it has found nothing: there may be more jobs, or
// this worker has left.
func (c *Claims) lookOnce(ctx context.Context, queue string) (job int, found bool, err error) {
	nothing := false
	defer func() { // also after a panic
		if !nothing {
			c.SignalUpTo(queue, signals.Unknown)
		}
	}()
	job, found, err = c.look(ctx, queue)
	nothing = !found && err == nil
	return job, found, err
}

// SignalUpTo is a hint: one worker looks.
func (c *Claims) SignalUpTo(queue string, _ int64) (awaited bool) {
	c.mu.Lock()
	delete(c.quiet, queue)
	c.mu.Unlock()
	c.waiting.SignalInOrder(queue)
	return c.waiting.Waiting(queue) > 0
}

// Keys returns the queues that nobody looks at without a hint.
func (c *Claims) Keys() iter.Seq[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Values(slices.Collect(maps.Keys(c.quiet)))
}
