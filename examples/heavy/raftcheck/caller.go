package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/raftcheck/client"
)

// Tally counts calls by how they ended.
type Tally struct {
	Written, NotWritten, MaybeWritten atomic.Int64
	Read, NotRead                     atomic.Int64
	Watched, NothingNew, NotWatched   atomic.Int64

	latest                  atomic.Int64 // nanoseconds by which an answer came after its deadline, at most
	frozen                  atomic.Int64 // odd while a member is frozen
	lastWritten, longestGap atomic.Int64 // nanoseconds, see wrote
}

// Done returns how many calls have ended.
func (t *Tally) Done() int64 {
	return t.Written.Load() + t.NotWritten.Load() + t.MaybeWritten.Load() + t.Read.Load() + t.NotRead.Load() +
		t.Watched.Load() + t.NothingNew.Load() + t.NotWatched.Load()
}

// wrote notes a write at a time of the history: the longest time between two is how long there was no leader that could write.
func (t *Tally) wrote(now int64) {
	t.Written.Add(1)
	raise(&t.longestGap, now-t.lastWritten.Swap(now))
}

// Latest returns by how much an answer came after its deadline, at most. Answers of members that were frozen do not count.
func (t *Tally) Latest() time.Duration { return time.Duration(t.latest.Load()) }

// LongestGap returns the longest time in which no write succeeded.
func (t *Tally) LongestGap() time.Duration { return time.Duration(t.longestGap.Load()) }

func raise(to *atomic.Int64, value int64) {
	for {
		now := to.Load()
		if value <= now || to.CompareAndSwap(now, value) {
			return
		}
	}
}

// How clients call.
const (
	callTimeout  = 1500 * time.Millisecond // as the node is told
	watchTimeout = callTimeout / 3
	hangUp       = 10 * time.Second // when the client gives up a node that does not answer; a node that is not frozen always does
	// Every other client gives up sooner and asks again: a node that thaws finds calls that were made long after it had frozen.
	hangUpSoon  = 300 * time.Millisecond
	pause       = 8 * time.Millisecond // between two calls, at most
	epoch       = time.Second          // after which clients go on to other keys: short histories are checked fast
	keysAtATime = 3
)

// caller makes one call after the other, most of them on one node: so a node that hangs does not hang all clients.
type caller struct {
	number  int
	random  *rand.Rand
	nodes   func() []*client.Client
	history *history
	tally   *Tally
	hangUp  time.Duration
	puts    int
}

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		nodes := c.nodes()
		n := nodes[c.number/2%len(nodes)]
		if c.random.IntN(5) == 0 {
			n = nodes[c.random.IntN(len(nodes))]
		}
		key := fmt.Sprintf("k%d.%d", time.Since(c.history.start)/epoch, c.random.IntN(keysAtATime))
		switch dice := c.random.IntN(100); {
		case dice < 40:
			c.put(ctx, n, key)
		case dice < 92:
			c.get(ctx, n, key)
		default:
			c.watch(ctx, n, key)
		}
		select {
		case <-time.After(time.Duration(c.random.Int64N(int64(pause)))):
		case <-ctx.Done():
		}
	}
}

func (c *caller) put(ctx context.Context, n *client.Client, key string) {
	c.puts++
	in := input{put: true, key: key, value: fmt.Sprintf("%d.%d", c.number, c.puts)}
	calling, cancel := context.WithTimeout(ctx, c.hangUp)
	defer cancel()
	called, frozen := c.history.now(), c.tally.frozen.Load()
	revision, err := n.Put(calling, key, in.value, callTimeout)
	switch {
	case err == nil:
		c.history.add(c.number, called, in, output{revision: revision})
		c.history.saw("put", key, in.value, revision)
		c.tally.wrote(c.history.now())
	case errors.Is(err, client.ErrNotWritten):
		// Not in the history at all: whoever reads this value has found a lie.
		c.tally.NotWritten.Add(1)
	default:
		c.history.add(c.number, called, in, output{unknown: true})
		c.tally.MaybeWritten.Add(1)
	}
	c.ended(ctx, called, callTimeout, frozen, err)
}

func (c *caller) get(ctx context.Context, n *client.Client, key string) {
	calling, cancel := context.WithTimeout(ctx, c.hangUp)
	defer cancel()
	called, frozen := c.history.now(), c.tally.frozen.Load()
	found, err := n.Get(calling, key, callTimeout)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		c.tally.NotRead.Add(1)
		c.ended(ctx, called, callTimeout, frozen, err)
		return
	}
	c.history.add(c.number, called, input{key: key}, output{value: found.Value, revision: found.Revision})
	c.history.saw("get", key, found.Value, found.Revision)
	c.tally.Read.Add(1)
	c.ended(ctx, called, callTimeout, frozen, err)
}

// watch is not part of the linearizable history: a node may be behind. What it returns must be newer than what was asked for,
// and agree with what others saw at that revision.
func (c *caller) watch(ctx context.Context, n *client.Client, key string) {
	calling, cancel := context.WithTimeout(ctx, c.hangUp)
	defer cancel()
	var after uint64
	for range 2 {
		called, frozen := c.history.now(), c.tally.frozen.Load()
		found, err := n.Watch(calling, key, after, watchTimeout)
		switch {
		case errors.Is(err, client.ErrNothingNew):
			c.tally.NothingNew.Add(1)
			c.ended(ctx, called, watchTimeout, frozen, nil)
			return
		case err != nil:
			c.tally.NotWatched.Add(1)
			c.ended(ctx, called, watchTimeout, frozen, err)
			return
		}
		if found.Revision <= after {
			c.history.broken("watch of %s after %d returned revision %d", key, after, found.Revision)
		}
		c.history.saw("watch", key, found.Value, found.Revision)
		c.tally.Watched.Add(1)
		after = found.Revision
	}
}

// ended notes how late an answer came. A member that was frozen meanwhile does not count, nor does a call that the end of the
// run has cut short, or one that the client gave up before its timeout. If the client gave up long after it, the promise that
// every call ends by its deadline is broken.
func (c *caller) ended(ctx context.Context, called int64, timeout time.Duration, frozen int64, err error) {
	now := c.tally.frozen.Load()
	if now != frozen || now%2 == 1 || ctx.Err() != nil {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		if c.hangUp > timeout {
			c.history.broken("a call with a timeout of %v had no answer after %v", timeout, c.hangUp)
		}
		return
	}
	raise(&c.tally.latest, c.history.now()-called-int64(timeout))
}
