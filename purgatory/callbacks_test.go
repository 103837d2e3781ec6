package purgatory_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Callbacks may call every method that does not block.

func TestCallbacksMayCallEveryNonBlockingMethod(t *testing.T) {
	everything := func(t *testing.T, p, q *stringPurgatory) func() {
		t.Helper()
		n := 0
		return func() {
			n++
			for _, at := range []*stringPurgatory{p, q} {
				for _, key := range []string{"same", "other"} {
					o := &op{}
					_, _ = at.TryCompleteElseWatch(o, hour, key)
					at.Extend(o, 2*hour)
					at.CheckAndComplete(key)
					at.CheckAndCompleteUpTo(key, 3)
					at.Signal(key)
					if n%2 == 0 {
						at.ForceComplete(o)
					} else {
						at.Cancel(o, errGone)
					}
					at.CancelForKey(key+"!", errGone)
					at.AdvanceClock(0)
				}
				_, _, _, _ = at.NumDelayed(), at.Watched(), at.NumKeys(), at.Stats()
			}
		}
	}
	for _, where := range []string{"first try", "second try", "check", "OnComplete", "OnExpiration"} {
		for _, closes := range []bool{false, true} {
			name := where
			if closes {
				name += ", which closes"
			}
			t.Run(name, func(t *testing.T) {
				p, q := onManualClock[string](t), onManualClock[string](t)
				bystander := submitted(t, p, "same", "other!")
				do := everything(t, p, q)
				call := func() {
					do()
					if closes {
						assert.NoError(t, p.Close())
						assert.NoError(t, q.Close())
						do()
					}
				}
				o := &op{}
				at := map[string]int32{"first try": 1, "second try": 2, "check": 3}[where]
				o.try = func() bool {
					if o.tries.Load() == at {
						call()
					}
					return false
				}
				switch where {
				case "OnComplete":
					o.complete = call
				case "OnExpiration":
					o.expire = call
				}
				_, err := p.TryCompleteElseWatch(o, time.Second, "same")
				if closes && where == "first try" {
					require.ErrorIs(t, err, purgatory.ErrClosed)
				} else {
					require.NoError(t, err)
					p.CheckAndComplete("same")
					p.AdvanceClock(time.Second)
					// A signal worker may be trying the operation now. Then that worker expires it.
					soon(t, "the expiry", func() {
						for o.completed.Load() == 0 {
							runtime.Gosched()
						}
					})
				}
				require.NoError(t, p.Shutdown(aWhile(t)))
				require.NoError(t, q.Shutdown(aWhile(t)))
				assert.LessOrEqual(t, o.completed.Load(), int32(1))
				assert.EqualValues(t, 1, bystander.completed.Load())
				for _, at := range []*stringPurgatory{p, q} {
					empty(t, at)
					conserved(t, at)
				}
			})
		}
	}
}

// aWhile returns a context for a Shutdown that has little or nothing to wait for. It ends when the
// test counts as stuck.
func aWhile(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), min(time.Minute, patience/2))
	t.Cleanup(cancel)
	return ctx
}

// chained is an operation whose OnComplete completes the next operation of its chain.
type chained struct {
	operation.DelayedOperation
	chain  *chain
	number int
}

type chain struct {
	p       *intPurgatory
	length  int
	reached int
	depth   int // deepest stack
	key     func(number int) int
	end     func(c *chain, o *chained) // completes the operation
}

func (o *chained) TryComplete() bool { return o.chain.reached == o.number }
func (o *chained) OnExpiration()     {}

func (o *chained) OnComplete() {
	c := o.chain
	if o.number%997 == 0 {
		c.depth = max(c.depth, depth())
	}
	if o.number == c.length {
		return
	}
	next := &chained{chain: c, number: o.number + 1}
	if _, err := c.p.TryCompleteElseWatch(next, hour, c.key(next.number)); err != nil {
		panic(err)
	}
	c.end(c, next)
}

// depth returns the number of frames on this goroutine's stack, up to 20,000.
func depth() int {
	pcs := make([]uintptr, 20_000)
	return runtime.Callers(0, pcs)
}

func TestAChainOfCompletionsDoesNotGrowTheStack(t *testing.T) {
	length := 100_000
	if purgatory.RaceDetector || testing.Short() {
		length = 8000 // still several times the frames that are allowed
	}
	ways := map[string]func(c *chain, o *chained){
		"check":  func(c *chain, o *chained) { c.reached = o.number; c.p.CheckAndComplete(c.key(o.number)) },
		"force":  func(c *chain, o *chained) { c.p.ForceComplete(o) },
		"cancel": func(c *chain, o *chained) { c.p.CancelForKey(c.key(o.number), nil) },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[int](t)
			c := &chain{p: p, length: length, reached: -1, end: end, key: func(int) int { return 7 }}
			first := &chained{chain: c}
			submit(t, p, first, hour, 7)
			end(c, first)
			answered(t, p, int64(length)+1)
			assert.Less(t, c.depth, 1500, "frames")
			empty(t, p)
		})
	}
	t.Run("registrations that are satisfied at once", func(t *testing.T) {
		p := onManualClock[int](t)
		deepest := 0
		var n atomic.Int64
		var next func()
		next = func() {
			n := n.Add(1)
			if n == int64(length) {
				return
			}
			if n%997 == 0 {
				deepest = max(deepest, depth())
			}
			_, err := p.TryCompleteElseWatch(&op{try: func() bool { return true }, complete: next}, hour, 7)
			assert.NoError(t, err)
		}
		next()
		eventually(t, func() bool { return n.Load() == int64(length) }, "workers go on where the stack is deep")
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Less(t, deepest, 1500, "frames")
	})
	t.Run("all keys of one shard", func(t *testing.T) {
		p := onManualClock[int](t, purgatory.WithWatcherShards(1))
		c := &chain{p: p, length: length, reached: -1, end: ways["check"], key: func(n int) int { return n % 1000 }}
		submit(t, p, &chained{chain: c}, hour, 0)
		c.reached = 0
		p.CheckAndComplete(0)
		answered(t, p, int64(length)+1)
		assert.EqualValues(t, length+1, conserved(t, p).Satisfied)
		assert.Less(t, c.depth, 1500, "frames")
	})
}

// answered waits until n operations have been accepted and have ended, and shuts p down.
func answered[K comparable](t *testing.T, p *purgatory.DelayedOperationPurgatory[K], n int64) {
	t.Helper()
	eventually(t, func() bool { s := p.Stats(); return s.Accepted == n && s.Pending == 0 }, "all are answered")
	require.NoError(t, p.Shutdown(aWhile(t)))
}

func TestBlockedCallbacksDoNotHoldUpLaterOnes(t *testing.T) {
	// Many goroutines are blocked in callbacks of one shard, more than there are workers,
	// until the callback of the operation that ends last releases them.
	const workers = 4
	const blocked = 64 + workers - 1
	p := open[int](t, purgatory.WithWatcherShards(1), purgatory.WithReapInterval(time.Millisecond), purgatory.WithExpiryWorkers(workers))
	var waiting atomic.Int32
	release := make(chan struct{})
	var waits []func()
	for i := range blocked {
		o := &op{complete: func() { waiting.Add(1); <-release }}
		submit(t, p, o, hour, i)
		waits = append(waits, inBackground(func() { p.ForceComplete(o) }))
	}
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "all are ended")
	key := submitted(t, p, blocked)
	key.complete = func() { close(release) }
	assert.True(t, p.ForceComplete(key))
	for _, wait := range waits {
		wait()
	}
	eventually(t, func() bool { return waiting.Load() == blocked }, "every callback runs")
	ended(t, key, operation.Forced)
	require.NoError(t, p.Shutdown(aWhile(t)), "no goroutine counts as being inside a callback")
}
