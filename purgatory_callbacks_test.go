package purgatory_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// What callbacks may do: anything but wait. And what they may do wrong.

func TestEveryCallbackMayCallAnything(t *testing.T) {
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
				_, _, _, _ = at.NumDelayed(), at.Watched(), at.Keys(), at.Stats()
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
					assert.EqualValues(t, 1, o.completed.Load())
				}
				require.NoError(t, p.Shutdown(expired(t)))
				require.NoError(t, q.Shutdown(expired(t)))
				assert.EqualValues(t, 1, bystander.completed.Load())
				for _, at := range []*stringPurgatory{p, q} {
					empty(t, at)
					conserved(t, at)
				}
			})
		}
	}
}

// expired returns a context under which Shutdown closes at once what is pending.
// On the manual clock everything has run by then, so it still returns nil.
func expired(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// chained completes the next operation, which waits for its number, from OnComplete.
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
	const length = 100_000
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
			assert.EqualValues(t, length+1, conserved(t, p).Accepted)
			assert.Less(t, c.depth, 1500, "frames")
			empty(t, p)
		})
	}
	t.Run("registrations that are satisfied at once", func(t *testing.T) {
		p := onManualClock[int](t)
		n, deepest := 0, 0
		var next func()
		next = func() {
			if n++; n == length {
				return
			}
			if n%997 == 0 {
				deepest = max(deepest, depth())
			}
			_, err := p.TryCompleteElseWatch(&op{try: func() bool { return true }, complete: next}, hour, 7)
			assert.NoError(t, err)
		}
		next()
		assert.Equal(t, length, n)
		assert.Less(t, deepest, 1500, "frames")
	})
	t.Run("all keys of one shard", func(t *testing.T) {
		p := onManualClock[int](t, purgatory.WithWatcherShards(1))
		c := &chain{p: p, length: length, reached: -1, end: ways["check"], key: func(n int) int { return n % 1000 }}
		submit(t, p, &chained{chain: c}, hour, 0)
		c.reached = 0
		p.CheckAndComplete(0)
		assert.EqualValues(t, length+1, conserved(t, p).Satisfied)
		assert.Less(t, c.depth, 1500, "frames")
	})
}

func TestCallbacksThatAreBlockedDoNotHoldUpThoseBehindThem(t *testing.T) {
	// More goroutines are in callbacks of one shard than may be; the last one's
	// callbacks wait in a queue, and the others wait for them.
	const most, workers = 64, 4 // see the package comment
	const blocked = most + workers - 1
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, p.Shutdown(ctx), "those who helped are not counted any more, nor those whom they helped")
}

// misdeeds are what a callback must not do to others.
var misdeeds = map[string]func(){
	"panic":  func() { panic("of the user's") },
	"Goexit": runtime.Goexit,
}

func TestAMisdeedInACallbackStopsNobodyElse(t *testing.T) {
	const ops, bad = 400, 7 // several batches, every seventh misbehaves
	ends := map[string]func(p *stringPurgatory, met *atomic.Bool){
		"check":  func(p *stringPurgatory, met *atomic.Bool) { met.Store(true); p.CheckAndComplete("a") },
		"cancel": func(p *stringPurgatory, _ *atomic.Bool) { p.CancelForKey("a", errGone) },
		"expire": func(p *stringPurgatory, _ *atomic.Bool) { p.AdvanceClock(hour) },
		"close":  func(p *stringPurgatory, _ *atomic.Bool) { _ = p.Close() },
	}
	for misdeed, commit := range misdeeds {
		for name, end := range ends {
			for _, where := range []string{"OnComplete", "OnExpiration"} {
				if where == "OnExpiration" && name != "expire" {
					continue
				}
				t.Run(misdeed+" in "+where+" on "+name, func(t *testing.T) {
					var told panics
					p := onManualClock[string](t, told.option())
					var met atomic.Bool
					all := make([]*op, ops)
					for i := range all {
						o := until(&met)
						all[i] = o
						if i%bad == 0 && where == "OnComplete" {
							o.complete = commit
						} else if i%bad == 0 {
							o.expire = commit
						}
						submit(t, p, o, time.Second, "a", []string{"b", "c", "d"}[i%3])
					}
					inBackground(func() { end(p, &met) })()
					for p.NumDelayed() > 0 { // who advanced the clock ended with the first Goexit
						inBackground(func() { p.AdvanceClock(0) })()
					}
					expirations := int32(0)
					if name == "expire" {
						expirations = 1
					}
					for i, o := range all {
						require.EqualValues(t, 1, o.completed.Load(), "OnComplete of %d", i)
						require.Equal(t, expirations, o.expired.Load(), "OnExpiration of %d", i)
					}
					if misdeed == "panic" {
						assert.EqualValues(t, (ops+bad-1)/bad, told.n.Load(), "never swallowed")
						assert.EqualValues(t, told.n.Load(), p.Stats().Panics)
					}
					empty(t, p)
					assert.EqualValues(t, ops, conserved(t, p).Accepted)
				})
			}
		}
	}
}

func TestAMisdeedInTryCompleteCountsAsANo(t *testing.T) {
	for misdeed, commit := range misdeeds {
		for at, stage := range map[int32]string{1: "first try", 2: "second try", 3: "check", 4: "look after a mark"} {
			t.Run(misdeed+" in the "+stage, func(t *testing.T) {
				var told panics
				p := onManualClock[string](t, told.option())
				o := &op{}
				o.try = func() bool {
					if o.tries.Load() == at-1 && stage == "look after a mark" {
						p.CheckAndComplete("a")
					}
					if o.tries.Load() == at {
						commit()
					}
					return false
				}
				before, after := submitted(t, p, "a"), &op{}
				var met atomic.Bool
				before.try, after.try = met.Load, met.Load
				inBackground(func() { _, _ = p.TryCompleteElseWatch(o, time.Second, "a", "b") })()
				submit(t, p, after, hour, "a")
				assert.Equal(t, 3, p.NumDelayed())
				met.Store(true)
				n := -1
				inBackground(func() { n = p.CheckAndComplete("a") })()
				if at < 3 || misdeed == "panic" && at == 3 { // Goexit ends who counts; a nested check counts for itself
					assert.Equal(t, 2, n, "the others")
				}
				ended(t, before, operation.Satisfied)
				ended(t, after, operation.Satisfied)
				pending(t, o)
				p.AdvanceClock(time.Second)
				ended(t, o, operation.Expired)
				if misdeed == "panic" {
					assert.EqualValues(t, 1, told.n.Load())
				}
				empty(t, p)
			})
		}
	}
}

func TestAWishIsCarriedOutAfterAMisdeed(t *testing.T) {
	for misdeed, commit := range misdeeds {
		t.Run(misdeed, func(t *testing.T) {
			var told panics
			p := onManualClock[string](t, told.option())
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() == 3 {
					p.Cancel(o, errGone)
					commit()
				}
				return false
			}
			submit(t, p, o, hour, "a")
			inBackground(func() { p.CheckAndComplete("a") })()
			ended(t, o, operation.Cancelled)
			assert.Equal(t, errGone, o.Cause())
		})
	}
}

func TestAPanicHandlerThatMisbehavesStopsNobody(t *testing.T) {
	// A handler that calls t.Fatal is easily written: that is runtime.Goexit.
	for misdeed, commit := range misdeeds {
		if misdeed == "panic" {
			restore := slog.Default()
			slog.SetDefault(slog.New(slog.DiscardHandler))
			t.Cleanup(func() { slog.SetDefault(restore) })
		}
		for at, where := range map[int32]string{1: "first try", 2: "second try", 3: "check", 0: "OnComplete"} {
			t.Run(misdeed+" after a panic in "+where, func(t *testing.T) {
				p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { commit() }))
				var met atomic.Bool
				o := &op{}
				o.try = func() bool {
					if o.tries.Load() == at {
						panic("of the user's")
					}
					return met.Load()
				}
				if where == "OnComplete" {
					o.complete = func() { panic("of the user's") }
				}
				inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })()
				after := until(&met)
				submit(t, p, after, hour, "a")
				met.Store(true)
				inBackground(func() { p.CheckAndComplete("a") })()
				ended(t, after, operation.Satisfied) // whatever became of the one before it
				inBackground(func() { p.CheckAndComplete("a") })()
				ended(t, o, operation.Satisfied)
				empty(t, p)
			})
		}
	}
}

func TestAPanicGoesToTheLogWithItsStackIfNobodyElseIsTold(t *testing.T) {
	var log bytes.Buffer
	restore := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(restore)
	p := onManualClock[string](t)
	o := &op{complete: func() { panic("what was wrong") }}
	submit(t, p, o, hour, "a")
	assert.True(t, p.ForceComplete(o))
	assert.Contains(t, log.String(), "what was wrong")
	assert.Contains(t, log.String(), "purgatory_callbacks_test.go", "the stack")
}

func TestWorkersAndReaperOutliveMisdeeds(t *testing.T) {
	for misdeed, commit := range misdeeds {
		t.Run(misdeed, func(t *testing.T) {
			var told panics
			p := open[string](t, told.option(), purgatory.WithExpiryWorkers(1), purgatory.WithReapInterval(time.Millisecond))
			for range 50 {
				submit(t, p, &op{complete: commit, expire: commit}, time.Millisecond, "a")
				tries := &op{}
				tries.try = func() bool {
					if tries.tries.Load() > 2 {
						commit()
					}
					return false
				}
				// A signal may have it look a third time while it registers.
				inBackground(func() { _, _ = p.TryCompleteElseWatch(tries, 3*time.Millisecond, "a") })()
				p.Signal("a")
			}
			eventually(t, func() bool { return p.Stats().Expired == 100 }, "everything expires")
			last := submitted(t, p, "b")
			last.try = nil
			p.CancelForKey("b", nil)
			ended(t, last, operation.Cancelled)
		})
	}
}
