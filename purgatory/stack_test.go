package purgatory_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// chained is an operation whose OnComplete completes the next operation of its chain.
type chained struct {
	operation.DelayedOperation
	chain  *chain
	number int
}

const chainKey = 7

type chain struct {
	p       *intPurgatory
	length  int
	reached int
	depth   int                        // deepest stack
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
	if _, err := c.p.TryCompleteElseWatch(next, hour, chainKey); err != nil {
		panic(err)
	}
	c.end(c, next)
}

func TestAChainOfCompletionsDoesNotGrowTheStack(t *testing.T) {
	const length = 8000 // several times the frames that are allowed
	ways := map[string]func(c *chain, o *chained){
		"check":  func(c *chain, o *chained) { c.reached = o.number; c.p.CheckAndComplete(chainKey) },
		"force":  func(c *chain, o *chained) { c.p.ForceComplete(o) },
		"cancel": func(c *chain, o *chained) { c.p.CancelForKey(chainKey, nil) },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[int](t)
			c := &chain{p: p, length: length, reached: -1, end: end}
			first := &chained{chain: c}
			submit(t, p, first, hour, chainKey)
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
}

// answered waits until n operations have been accepted and have ended, and shuts p down.
func answered[K comparable](t *testing.T, p *purgatory.Purgatory[K], n int64) {
	t.Helper()
	eventually(t, func() bool { s := p.Stats(); return s.Accepted == n && s.Pending == 0 }, "all are answered")
	require.NoError(t, p.Shutdown(aWhile(t)))
}

// Each completion of a chain completes the next operation. The stack does not grow with the chain, but has at most 32 levels for each
// shard of the purgatories that the chain comes to, beside a crowd of callbacks that block, too.
func TestChainsAreBoundedWhateverTheShards(t *testing.T) {
	const length, perLevel = 6000, 28 // four times the frames of a level: while a stack unwinds, a look may come 32 levels later
	for _, shards := range []int{1, 16} {
		for where, blocked := range map[string]int{"alone": 0, "between two": 0, "beside a crowd": 200} {
			t.Run(where+" "+strconv.Itoa(shards), func(t *testing.T) {
				p := open[int](t, purgatory.WithWatcherShards(shards))
				all, gates := []*intPurgatory{p, p}, 1
				if where == "between two" {
					gates = 2
					all[1] = open[int](t, purgatory.WithWatcherShards(shards))
				}
				disperse := crowd(t, p, blocked)
				var seen deepest
				var reached, done atomic.Int64
				for i := range int64(length) {
					submit(t, all[i%2], &op{try: func() bool { return reached.Load() >= i && done.Load() > 0 }, complete: func() {
						if i%61 == 0 {
							seen.look()
						}
						done.Add(1)
						reached.Store(i + 1)
						all[(i+1)%2].CheckAndComplete(int(i) + 1)
					}}, hour, int(i))
				}
				done.Store(1)
				p.CheckAndComplete(0)
				eventually(t, func() bool { return done.Load() == length+1 }, "every one completes")
				disperse()
				for _, p := range all {
					require.NoError(t, p.Shutdown(t.Context()))
				}
				assert.Less(t, seen.frames.Load(), int64(machine.DeepStack+perLevel*purgatory.LookEvery*shards*gates))
			})
		}
	}
}

// waker is an operation whose TryComplete changes state that operations of other keys wait
// for, and checks these keys: Kafka's share fetch does so when it gives back a lock.
type waker struct {
	operation.DelayedOperation
	try      func() bool
	finished atomic.Int64
}

func (w *waker) TryComplete() bool { return w.try() }
func (w *waker) OnComplete()       { w.finished.Add(1) }
func (w *waker) OnExpiration()     {}

// Checks that are made inside a TryComplete, and that come back to the key that is being checked, cost at
// most a small constant times the number of waiting operations, and lose no wake-up.
func TestChecksInsideATryAreBounded(t *testing.T) {
	for _, waiters := range []int{1, 2, 3, 6, 10, 100} {
		t.Run(strconv.Itoa(waiters), func(t *testing.T) {
			p := open[int](t)
			var calls atomic.Int64
			var round atomic.Int64 // of the outermost calls
			var caller atomic.Value
			caller.Store("")
			var all []*waker
			for range waiters {
				w := new(waker)
				w.try = func() bool {
					if goroutineID() == caller.Load() {
						calls.Add(1)
					}
					if round.Load() == 0 {
						return false // registering
					}
					// Before the check: an operation that ends wakes the next ones up after the
					// condition is met.
					met := round.Load() >= 3
					p.CheckAndComplete(0)
					return met
				}
				all = append(all, w)
				_, err := p.TryCompleteElseWatch(w, hour, 0)
				require.NoError(t, err)
			}
			for r := int64(1); r <= 2; r++ {
				round.Store(r)
				calls.Store(0)
				soon(t, "the caller is not kept", func() {
					caller.Store(goroutineID())
					p.CheckAndComplete(0)
				})
				assert.LessOrEqual(t, calls.Load(), int64(9*waiters), "tries in one call")
			}
			round.Store(3)
			soon(t, "no wake-up is lost", func() {
				eventually(t, func() bool {
					p.CheckAndComplete(0)
					return p.NumDelayed() == 0
				}, "all end")
			})
			require.NoError(t, p.Shutdown(t.Context()))
			for _, w := range all {
				require.EqualValues(t, 1, w.finished.Load())
			}
		})
	}
}

// crowd blocks n callbacks of operations on different keys of one shard, and returns a
// function that releases them.
func crowd(t *testing.T, p *intPurgatory, n int) (disperse func()) {
	t.Helper()
	release := make(chan struct{})
	var inside atomic.Int32
	var waits []func()
	for i := range n {
		o := &op{complete: func() { inside.Add(1); <-release }}
		submit(t, p, o, hour, 1000+i)
		waits = append(waits, inBackground(func() { p.ForceComplete(o) }))
	}
	eventually(t, func() bool { return inside.Load() == int32(n) }, "every callback runs where its operation has ended")
	return func() {
		close(release)
		for _, wait := range waits {
			wait()
		}
	}
}

// nest calls f on a stack that is deeper by this many frames.
//
//go:noinline
func nest(frames int, f func()) {
	if frames == 0 {
		f()
		return
	}
	nest(frames-1, f)
}

// framesOfRun returns how many frames there are where the goroutine that runs a callback decides whether it does, or a worker.
func framesOfRun() (n int) {
	pcs := make([]uintptr, 2*machine.DeepStack)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for more, counts := true, false; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if counts = counts || strings.HasSuffix(f.Function, ".answerAll"); counts {
			n++
		}
	}
	return n
}

// A goroutine that ends an operation inside another callback, on a stack of 400 frames, leaves the callbacks to a worker, if it looks: at
// each 32nd level in a shard. Otherwise it runs them itself.
func TestCallbacksAreHandedOverOnADeepStackOnly(t *testing.T) {
	// force ends an operation at a level, on a stack with more frames than the goroutine has anyway.
	force := func(level, more int) (handedOver bool, frames int) {
		p := onManualClock[int](t, purgatory.WithWatcherShards(1))
		held := purgatory.HoldWorkers(t, p)
		disperse := crowd(t, p, level-2)
		defer disperse()
		inner := &op{complete: func() { frames = framesOfRun() }}
		submit(t, p, inner, hour, 1)
		outer := &op{complete: func() { nest(more, func() { assert.True(t, p.ForceComplete(inner)) }) }}
		submit(t, p, outer, hour, 2)
		require.True(t, p.ForceComplete(outer))
		assert.Equal(t, operation.Forced, inner.Outcome(), "it has ended in any case")
		handedOver = inner.completed.Load() == 0
		held.Work()
		ended(t, inner, operation.Forced)
		return handedOver, frames
	}
	_, base := force(2, 0)
	for _, level := range []int{2, 31, 32, 33, 63, 64, 65} {
		for _, frames := range []int{base, 399, 400, 401} {
			handedOver, at := force(level, frames-base)
			assert.Equal(t, frames >= 400 && level%32 == 0, handedOver, "level %d, %d frames", level, frames)
			if !handedOver {
				assert.Equal(t, frames, at)
			}
		}
	}
}

// Each level of a chain is a callback that ends the next operation. On a deep stack a worker goes on at the 32nd, and has a stack of its own.
func TestAChainIsHandedOverAtTheLevelWhereItLooks(t *testing.T) {
	for _, levels := range []int{31, 32, 33, 65} {
		p := onManualClock[int](t, purgatory.WithWatcherShards(1))
		held := purgatory.HoldWorkers(t, p)
		ran := 0
		var force func(left int)
		force = func(left int) {
			o := &op{complete: func() {
				if ran++; left > 1 {
					force(left - 1)
				}
			}}
			submit(t, p, o, hour, left)
			assert.True(t, p.ForceComplete(o))
		}
		nest(machine.DeepStack, func() { force(levels) })
		assert.Equal(t, min(levels, 31), ran)
		held.Work()
		assert.Equal(t, levels, ran)
		empty(t, p)
	}
}

// A check of another key inside a TryComplete is made at once, by its caller.
func TestACheckOfAnotherKeyInsideATryIsMadeAtOnce(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithWatcherShards(1))
	var met atomic.Bool
	waits, wakes := until(&met), &op{}
	submit(t, p, waits, hour, "b")
	submit(t, p, wakes, hour, "a")
	wakes.try = func() bool {
		met.Store(true)
		assert.Equal(t, 1, p.CheckAndComplete("b"))
		return true
	}
	assert.Equal(t, 1, p.CheckAndComplete("a"))
	ended(t, waits, operation.Satisfied)
	ended(t, wakes, operation.Satisfied)
}

func TestKAFKA15380DeferredCompletionsRunOnEveryPath(t *testing.T) {
	// A chain of completions that is too long for one stack runs to its end without a
	// further call, whichever method has begun it.
	for name, begin := range map[string]func(p *intPurgatory, o *chained){
		"force":  func(p *intPurgatory, o *chained) { p.ForceComplete(o) },
		"cancel": func(p *intPurgatory, o *chained) { p.Cancel(o, nil) },
		"key":    func(p *intPurgatory, _ *chained) { p.CancelForKey(7, nil) },
		"expire": func(p *intPurgatory, _ *chained) { p.AdvanceClock(2 * hour) },
		"close":  func(p *intPurgatory, _ *chained) { assert.NoError(t, p.Close()) },
	} {
		p := onManualClock[int](t)
		c := &chain{p: p, length: 500, reached: -1}
		c.end = func(c *chain, o *chained) { c.p.ForceComplete(o) }
		first := &chained{chain: c}
		submit(t, p, first, hour, chainKey)
		if name == "close" {
			c.length = 0 // the purgatory accepts no operation any more
		}
		begin(p, first)
		answered(t, p, int64(c.length+1))
	}
}

// handing is what the verbs of TestAVerbIsWhatItWasWhereverItIsCalled are called on: four operations of the key "k", two
// of them without a position, and then those of positions 5 and 6, and one of the key "l".
type handing struct {
	p     *stringPurgatory
	ops   [5]*op
	exits bool // user code is to end its goroutine
}

var errOtherGone = errors.New("another leader is gone")

// A verb may be called where the caller must not, or does not, do all of the work. Whoever does it then does what was asked:
// as far, in the order, with the outcome and with the cause that the caller has named.
func TestAVerbIsWhatItWasWhereverItIsCalled(t *testing.T) {
	const (
		waits     = operation.Pending
		satisfied = operation.Satisfied
		forced    = operation.Forced
		cancelled = operation.Cancelled
		behind    = "behind more than a batch, in which goroutines end"
	)
	type outcomes [5]operation.Outcome
	type bools [5]bool
	verbs := map[string]struct {
		call  func(h *handing)
		says  bools // the operations' TryComplete
		tried bools
		ended outcomes
		cause [5]error
	}{
		"check":        {call: func(h *handing) { h.p.CheckAndComplete("k") }, says: bools{false, true, true, true, true}, tried: bools{true, true, true, true}, ended: outcomes{waits, satisfied, satisfied, satisfied, waits}},
		"two keys":     {call: func(h *handing) { h.p.CheckAndComplete("l", "k") }, says: bools{false, true, true, true, true}, tried: bools{true, true, true, true, true}, ended: outcomes{waits, satisfied, satisfied, satisfied, satisfied}},
		"up to":        {call: func(h *handing) { h.p.CheckAndCompleteUpTo("k", 5) }, says: bools{false, true, true, true, true}, tried: bools{true, true, true}, ended: outcomes{waits, satisfied, satisfied}},
		"signal":       {call: func(h *handing) { h.p.Signal("k") }, says: bools{false, true, true, true, true}, tried: bools{true, true, true, true}, ended: outcomes{waits, satisfied, satisfied, satisfied}},
		"signal up to": {call: func(h *handing) { h.p.SignalUpTo("k", 5) }, says: bools{false, true, true, true, true}, tried: bools{true, true, true}, ended: outcomes{waits, satisfied, satisfied}},
		"signal twice": {call: func(h *handing) { h.p.SignalUpTo("k", 5); h.p.SignalUpTo("k", 4) }, says: bools{false, true, true, true, true}, tried: bools{true, true, true}, ended: outcomes{waits, satisfied, satisfied}},
		"cancel for two causes": {
			call:  func(h *handing) { h.p.CancelForKey("l", errOtherGone); h.p.CancelForKey("k", errGone) },
			ended: outcomes{cancelled, cancelled, cancelled, cancelled, cancelled}, cause: [5]error{errGone, errGone, errGone, errGone, errOtherGone},
		},
		"cancel two": {
			call:  func(h *handing) { h.p.Cancel(h.ops[0], errGone); h.p.Cancel(h.ops[2], errOtherGone) },
			ended: outcomes{0: cancelled, 2: cancelled}, cause: [5]error{0: errGone, 2: errOtherGone},
		},
		"force and cancel": {
			call: func(h *handing) { h.p.ForceComplete(h.ops[3]); h.p.Cancel(h.ops[1], errGone) }, ended: outcomes{1: cancelled, 3: forced}, cause: [5]error{1: errGone},
		},
	}
	// inCallback calls f on a goroutine that has an open entry of the gate.
	inCallback := func(t *testing.T, h *handing, f func()) {
		o := &op{complete: f}
		submit(t, h.p, o, hour, "outer")
		assert.True(t, h.p.ForceComplete(o))
	}
	// inTry calls f in the n-th of many tries in a row.
	inTry := func(t *testing.T, h *handing, n int32, f func()) {
		o := &op{}
		submit(t, h.p, o, hour, "outer")
		before := o.tries.Load()
		o.try = func() bool {
			tries := o.tries.Load() - before
			if tries == n {
				f()
			}
			if tries < 12 {
				h.p.CheckAndComplete("outer") // once more
			}
			return false
		}
		h.p.CheckAndComplete("outer")
	}
	places := map[string]func(t *testing.T, h *handing, call func()){
		"where nothing is in the way": func(_ *testing.T, _ *handing, call func()) { call() },
		"in a callback":               inCallback,
		"on a deep stack": func(t *testing.T, h *handing, call func()) {
			inCallback(t, h, func() { nest(machine.DeepStack, call) })
		},
		"in a try":             func(t *testing.T, h *handing, call func()) { inTry(t, h, 1, call) },
		"in the eighth try":    func(t *testing.T, h *handing, call func()) { inTry(t, h, 8, call) },
		"in a try of a worker": func(t *testing.T, h *handing, call func()) { inTry(t, h, 9, call) },
		"on a deep stack in a try": func(t *testing.T, h *handing, call func()) {
			inTry(t, h, 1, func() { nest(machine.DeepStack, call) })
		},
		behind: func(_ *testing.T, h *handing, call func()) {
			h.exits = true
			inBackground(call)()
		},
		"while a Shutdown waits": func(t *testing.T, h *handing, call func()) {
			ctx, stop := context.WithCancel(t.Context())
			wait := inBackground(func() { _ = h.p.Shutdown(ctx) })
			synctest.Wait()
			_, err := h.p.TryCompleteElseWatch(&op{}, hour, "k")
			require.ErrorIs(t, err, purgatory.ErrClosed)
			call()
			t.Cleanup(func() { stop(); wait() })
		},
	}
	ahead := map[string]int{behind: 130} // how many operations stand before the others
	for place, in := range places {
		for name, verb := range verbs {
			{
				t.Run(name+" "+place, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := &handing{p: onManualClock[string](t, purgatory.WithWatcherShards(1))}
						armed := false
						for i := range ahead[place] {
							o := &op{complete: func() {
								if i == 0 && h.exits {
									runtime.Goexit()
								}
							}}
							o.try = func() bool { return armed }
							submit(t, h.p, o, hour, "k")
						}
						for i := range h.ops {
							h.ops[i] = &op{try: func() bool { return armed && verb.says[i] }}
							at := purgatory.KeyPosition[string]{Key: "k", Position: []int64{purgatory.AnyPosition, purgatory.AnyPosition, 5, 6, 7}[i]}
							if i == 4 {
								at.Key = "l"
							}
							_, err := h.p.TryCompleteElseWatchAt(h.ops[i], hour, at)
							require.NoError(t, err)
						}
						armed = true
						in(t, h, func() { verb.call(h) })
						synctest.Wait() // for all workers
						for i, o := range h.ops {
							assert.Equal(t, verb.tried[i], o.tries.Load() > 2, "operation %d: it was tried", i)
							assert.Equal(t, verb.ended[i], o.Outcome(), "operation %d", i)
							assert.Equal(t, verb.cause[i], o.Cause(), "operation %d", i)
							assert.Equal(t, verb.ended[i] != waits, o.completed.Load() == 1, "operation %d: its callback has run", i)
						}
					})
				})
			}
		}
	}
}
