// Package claims is the recipe of docs/many-processes.md: of the workers that wait for the jobs of
// a queue, one in each process looks in the engine when a hint comes. It is there to be copied; the
// tests of signals, plugin/nats and plugin/postgres run it.
package claims

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
)

// Claims hands out the jobs of an engine. It is the Waiters of a Runner, and safe for concurrent use.
type Claims struct {
	look func(ctx context.Context, kind string) (job int, found bool, err error) // claims a job, in one transaction

	mu    sync.Mutex
	turns map[string]*queue.Queue[struct{}] // by kind of job: a turn to look, if nobody has begun to since the last hint
}

// New returns a Claims of workers that look in the engine with look.
func New(look func(ctx context.Context, kind string) (job int, found bool, err error)) *Claims {
	return &Claims{look: look, turns: make(map[string]*queue.Queue[struct{}])}
}

// Claim waits until this worker has a job of kind.
func (c *Claims) Claim(ctx context.Context, timeout time.Duration, kind string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, queue.ErrExpired)
	defer cancel()
	for {
		if _, err := c.of(kind).Take(ctx, timer.Never); err != nil {
			return 0, err
		}
		if job, found, err := c.lookOnce(ctx, kind); found || err != nil {
			return job, err
		}
	}
}

// of returns the turns of kind. The first who comes has one: there may be jobs already.
func (c *Claims) of(kind string) *queue.Queue[struct{}] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[kind] == nil {
		c.turns[kind], _ = queue.New[struct{}](queue.WithMaxItems(1)) // no error: it is a limit
		_ = c.turns[kind].Put(struct{}{})
	}
	return c.turns[kind]
}

// lookOnce has the next in line look, too, unless it has found nothing: there may be more jobs, or
// this worker has left.
func (c *Claims) lookOnce(ctx context.Context, kind string) (job int, found bool, err error) {
	nothing := false
	defer func() { // also after a panic
		if !nothing {
			c.SignalUpTo(kind, signals.Unknown)
		}
	}()
	job, found, err = c.look(ctx, kind)
	nothing = !found && err == nil
	return job, found, err
}

// SignalUpTo is a hint: one worker looks.
func (c *Claims) SignalUpTo(kind string, _ int64) (awaited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turns := c.turns[kind]; turns != nil {
		if awaited, _ = turns.Hand(struct{}{}); !awaited {
			_ = turns.Put(struct{}{}) // full: nobody has taken the last one
		}
	}
	return awaited
}

// Keys returns the kinds for which nobody looks without a hint.
func (c *Claims) Keys() iter.Seq[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var kinds []string
	for kind, turns := range c.turns {
		if turns.Stats().Items == 0 {
			kinds = append(kinds, kind)
		}
	}
	return slices.Values(kinds)
}
