package purgatory_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

func TestAChainOfCompletionsDoesNotGrowTheStack(t *testing.T) {
	const length = 8000 // several times the frames that are allowed
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

// Each completion of a chain completes the next operation. The stack stays small whatever
// the length of the chain, and however its keys lie in shards.
func TestChainsAreBoundedWhateverTheShards(t *testing.T) {
	const maxFrames = 4000 // of some hundred bytes each: below a megabyte
	const length = 3000    // without a bound several times the frames that are allowed
	for _, shards := range []int{1, 64, 1024, 65_536} {
		for _, where := range []string{"OnComplete", "TryComplete", "OnComplete of two purgatories", "OnComplete beside a crowd"} {
			t.Run(where+" "+strconv.Itoa(shards), func(t *testing.T) {
				p := open[int](t, purgatory.WithWatcherShards(shards))
				q := p
				if where == "OnComplete of two purgatories" {
					q = open[int](t, purgatory.WithWatcherShards(shards))
				}
				at := func(i int) *intPurgatory {
					if i%2 == 0 {
						return p
					}
					return q
				}
				disperse := func() {}
				if where == "OnComplete beside a crowd" {
					disperse = crowd(t, p, 200)
					for range 1000 { // by now few completions look at their stack
						o := &op{}
						submit(t, p, o, hour, -1)
						require.True(t, p.ForceComplete(o))
					}
				}
				var seen deepest
				var reached, done atomic.Int64
				all := make([]*op, length)
				for i := range all {
					next := func() {
						if i%61 == 0 {
							seen.look()
						}
						if i+1 < length {
							reached.Store(int64(i + 1))
							at(i + 1).CheckAndComplete(i + 1)
						}
					}
					o := &op{}
					all[i] = o
					o.try = func() bool { return reached.Load() >= int64(i) }
					o.complete = func() { next(); done.Add(1) }
					if where == "TryComplete" {
						o.complete = func() { done.Add(1) }
						o.try = func() bool {
							if reached.Load() < int64(i) {
								return false
							}
							next()
							return true
						}
					}
				}
				reached.Store(-1)
				for i, o := range all {
					submit(t, at(i), o, hour, i)
				}
				reached.Store(0)
				p.CheckAndComplete(0)
				eventually(t, func() bool { return done.Load() == int64(length) }, "every one completes")
				disperse()
				require.NoError(t, p.Shutdown(t.Context()))
				require.NoError(t, q.Shutdown(t.Context()))
				for _, o := range all {
					require.EqualValues(t, 1, o.completed.Load())
				}
				assert.Less(t, seen.frames.Load(), int64(maxFrames))
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
				assert.LessOrEqual(t, calls.Load(), int64(16*waiters+64), "tries in one call")
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

// Tests of crowds, of deep stacks and of checks inside a TryComplete. Those named
// TestDefect… find a defect of proof/seeded.

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

// deepestOf runs a chain of operations on different keys, each of which ends the next, and
// returns the depth of the deepest stack.
func deepestOf(t *testing.T, p *intPurgatory, length int, link func(i int, next func()) *op, end func(o *op, i int)) int {
	t.Helper()
	var deep, reached atomic.Int64
	var ops []*op
	next := func(i int) {
		if i%101 == 0 {
			deep.Store(max(deep.Load(), int64(depth())))
		}
		reached.Store(int64(i))
		if i < length {
			end(ops[i], i)
		}
	}
	for i := range length {
		ops = append(ops, link(i, func() { next(i + 1) }))
		submit(t, p, ops[i], hour, i)
	}
	next(0)
	eventually(t, func() bool { return reached.Load() == int64(length) && p.NumDelayed() == 0 }, "the last one")
	return int(deep.Load())
}

func TestAChainOverManyShardsKeepsTheStackSmall(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1<<13))
	deep := deepestOf(t, p, 5000, func(_ int, next func()) *op { return &op{complete: next} },
		func(o *op, _ int) { p.ForceComplete(o) })
	assert.Less(t, deep, 12_000, "frames")
}

// A program may have a purgatory for each object. Then no level of a chain over the objects finds its gate occupied, and
// one in 4,096 looks at the stack all the same: so it is likely that a chain of 10,000 goes on at a worker somewhere.
func TestAChainOverManyPurgatoriesGoesOnAtAWorker(t *testing.T) {
	const length = 10_000
	for name, inTry := range map[string]bool{"through OnComplete": false, "through TryComplete": true} {
		t.Run(name, func(t *testing.T) {
			ps, ready := make([]*intPurgatory, length), make([]atomic.Bool, length)
			var deepest, reached atomic.Int64
			next := func(i int) {
				if i%101 == 0 {
					pcs := make([]uintptr, 1<<18)
					deepest.Store(max(deepest.Load(), int64(runtime.Callers(0, pcs))))
				}
				if reached.Store(int64(i)); i < length {
					ready[i].Store(true)
					ps[i].CheckAndComplete(0)
				}
			}
			for i := range ps {
				ps[i] = open[int](t, purgatory.WithoutReaper())
			}
			for trial := 0; trial == 0 || deepest.Load() > 11*length; trial++ { // one that stays on its goroutine has 12 frames for each
				require.Less(t, trial, 15, "each stayed on its goroutine: by chance one in ten does")
				deepest.Store(0)
				for i := range ps {
					ready[i].Store(false)
					submit(t, ps[i], &op{try: func() bool {
						if inTry && ready[i].Load() {
							next(i + 1)
						}
						return ready[i].Load()
					}, complete: func() {
						if !inTry {
							next(i + 1)
						}
					}}, purgatory.NoTimeout, 0)
				}
				next(0)
				eventually(t, func() bool { return reached.Load() == length && ps[0].NumDelayed() == 0 }, "the last one")
				for _, p := range ps {
					eventually(t, func() bool { return p.NumDelayed() == 0 }, "the way back")
				}
			}
		})
	}
}

func TestAChainThroughTryCompleteKeepsTheStackSmall(t *testing.T) {
	for _, shards := range []int{1, 1 << 13} {
		p := onManualClock[int](t, purgatory.WithWatcherShards(shards))
		ready := make([]atomic.Bool, 5001)
		deep := deepestOf(t, p, 5000, func(i int, next func()) *op {
			return &op{try: func() bool {
				if !ready[i].Load() {
					return false
				}
				next()
				return true
			}}
		}, func(_ *op, i int) { ready[i].Store(true); p.CheckAndComplete(i) })
		assert.Less(t, deep, 12_000, "frames, with %d shards", shards)
	}
}

func TestNestedChecksOfEachWaiterAreBounded(t *testing.T) {
	const waiters = 7
	p := open[string](t)
	var tries atomic.Int64
	var checks atomic.Bool
	var met atomic.Bool
	for range waiters {
		var nested atomic.Int32
		submit(t, p, &op{try: func() bool {
			tries.Add(1)
			if checks.Load() && nested.Add(1) <= 20 {
				p.CheckAndComplete("a")
			}
			return met.Load()
		}}, hour, "a")
	}
	tries.Store(0)
	checks.Store(true)
	p.CheckAndComplete("a")
	assert.LessOrEqual(t, tries.Load(), int64(20*20*waiters), "each of 20 nested checks of each waiter tries each waiter once, on a worker")
	met.Store(true)
	p.Signal("a")
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "no wake-up is lost")
}

func TestANestedCheckIsLeftToAWorker(t *testing.T) {
	p := open[string](t, purgatory.WithWatcherShards(1))
	for range 2 { // after the first nested check every check calls nested
		var met atomic.Bool
		waits, wakes := until(&met), &op{}
		submit(t, p, waits, hour, "b")
		wakes.try = func() bool {
			if wakes.tries.Load() == 3 {
				met.Store(true)
				assert.Zero(t, p.CheckAndComplete("b"))
			}
			return wakes.tries.Load() >= 3
		}
		submit(t, p, wakes, hour, "a")
		assert.Equal(t, 1, p.CheckAndComplete("a"))
		eventually(t, func() bool { return waits.completed.Load() == 1 }, "the nested check")
	}
}

// Each TryComplete registers the next operation. One registration in some hundred looks at its stack,
// so the stack may hold thousands of them, and not all.
func TestAChainOfRegistrationsInTryCompleteKeepsTheStackSmall(t *testing.T) {
	const length = 20_000 // without a bound several times the frames that are allowed
	p := open[int](t)
	for range 2 {
		var deep, completed atomic.Int64
		var register func(i int)
		register = func(i int) {
			if i == length {
				return
			}
			o := &op{complete: func() { completed.Add(1) }}
			o.try = func() bool {
				if o.tries.Load() == 1 {
					if i%100 == 0 {
						deep.Store(max(deep.Load(), int64(depth())))
					}
					register(i + 1)
				}
				return true
			}
			_, err := p.TryCompleteElseWatch(o, hour, i)
			assert.NoError(t, err)
		}
		register(0)
		eventually(t, func() bool { return completed.Load() == int64(length) }, "every operation completes")
		assert.Less(t, deep.Load(), int64(40_000), "frames")
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

// A goroutine that ends an operation inside another callback, on a deep stack, leaves the
// callbacks to a worker. On a stack that is not deep it runs them itself, even if the gate
// is occupied.
func TestCallbacksAreHandedOverOnADeepStackOnly(t *testing.T) {
	for frames, deep := range map[int]bool{0: false, machine.DeepStack / 2: false, machine.DeepStack: true} {
		p := onManualClock[string](t, purgatory.WithWatcherShards(1))
		var inside atomic.Bool
		ended := make(chan bool, 1)
		inner := &op{complete: func() { ended <- inside.Load() }}
		_, err := p.TryCompleteElseWatch(inner, time.Hour, "a")
		require.NoError(t, err)
		proceed := make(chan struct{})
		if deep { // the only worker is inside the outer callback
			blocked := inner.complete
			inner.complete = func() { <-proceed; blocked() }
		}
		outer := &op{complete: func() {
			nest(frames, func() {
				inside.Store(true)
				assert.True(t, p.ForceComplete(inner))
				inside.Store(false)
			})
		}}
		_, err = p.TryCompleteElseWatch(outer, time.Hour, "b")
		require.NoError(t, err)
		require.True(t, p.ForceComplete(outer))
		assert.Equal(t, operation.Forced, inner.Outcome(), "it has ended in any case")
		if deep {
			assert.False(t, p.Idle(), "and is not answered")
		}
		close(proceed)
		select {
		case nested := <-ended:
			assert.Equal(t, !deep, nested, "%d frames", frames)
		case <-time.After(deadline):
			t.Fatal("it is not answered")
		}
		require.Eventually(t, p.Idle, deadline, time.Millisecond)
	}
}

// A registration on a deep stack makes its tries itself, unless it is inside a TryComplete.
func TestARegistrationOnADeepStackTriesItsOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithWatcherShards(1))
	nest(machine.DeepStack, func() {
		completed, err := p.TryCompleteElseWatch(&probe{ready: true}, time.Hour, "a")
		assert.NoError(t, err)
		assert.True(t, completed)
	})
}

// A walk that ends operations on a deep stack leaves their callbacks to a worker. The next walk,
// which uses the same memory, does not.
func TestAWalkAfterADeepOneRunsCallbacksItself(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithWatcherShards(1))
	on := make(chan string, 1)
	wait := func(key string, tell func()) {
		_, err := p.TryCompleteElseWatch(&op{complete: tell}, time.Hour, key)
		require.NoError(t, err)
	}
	where := func() { on <- string(goroutineName()) }
	here := string(goroutineName())
	for range 10 { // the pool of another processor may have a walk that was not deep
		wait("a", where)
		wait("b", func() {
			nest(machine.DeepStack, func() { assert.Equal(t, 1, p.CancelForKey("a", nil)) })
		})
		require.Equal(t, 1, p.CancelForKey("b", nil))
		assert.NotEqual(t, here, <-on, "the stack was deep")
		require.Eventually(t, p.Idle, deadline, time.Millisecond)
		for range 3 {
			wait("c", where)
			require.Equal(t, 1, p.CancelForKey("c", nil))
			require.Equal(t, here, <-on)
		}
	}
}

// goroutine returns how the runtime names the calling goroutine in a stack: "goroutine 18 ".
func goroutineName() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	return buf[:bytes.IndexByte(buf, '[')]
}

// small has the size of 224 bytes that a slice's neighbours share.
type small struct {
	operation.DelayedOperation
	try func()
	_   [96]byte
}

func (s *small) TryComplete() bool { s.try(); return false }
func (s *small) OnComplete()       {}
func (s *small) OnExpiration()     {}

// Registrations without time, each made inside the TryComplete of the one before, keep the
// stack small.
func TestRegistrationsWithoutTimeInTryCompleteKeepTheStackSmall(t *testing.T) {
	for _, inSlice := range []bool{false, true} {
		for _, opts := range [][]purgatory.Option{nil, {purgatory.WithFirstInFirstOut()}} {
			p := onManualClock[int](t, opts...)
			for _, c := range []struct{ n, frames int64 }{
				{15_000, 40_000}, // without a bound more than are allowed
				{5_000, 2_000},   // after such a chain was found, every registration looks
			} {
				nestRegistrations(t, p, c.n, c.frames, inSlice)
			}
			require.NoError(t, p.Shutdown(t.Context()))
		}
	}
}

// nestRegistrations makes n registrations without time, each inside the TryComplete of another one, and asserts that this takes fewer
// frames.
func nestRegistrations(t *testing.T, p *intPurgatory, n, frames int64, inSlice bool) {
	t.Helper()
	var all []small
	if inSlice {
		all = make([]small, n)
	}
	var deepest, next, returned atomic.Int64
	var try func()
	try = func() {
		i := next.Add(1)
		if i > n {
			return
		}
		if i%128 == 0 {
			pcs := make([]uintptr, 1<<16)
			deepest.Store(max(deepest.Load(), int64(runtime.Callers(0, pcs))))
		}
		o := &small{}
		if inSlice {
			o = &all[i-1]
		}
		o.try = try
		_, err := p.TryCompleteElseWatch(o, time.Duration(-(i % 2)), int(i))
		assert.NoError(t, err)
		returned.Add(1)
	}
	try()
	// Shutdown refuses a registration that goes on beside it.
	require.True(t, inTime(func() bool { return next.Load() > n && returned.Load() == n }), "%d, %d", next.Load(), returned.Load())
	assert.Less(t, deepest.Load(), frames, "frames")
	p.AdvanceClock(time.Millisecond)
}

// A registration is left to a worker where its stack is deep and a TryComplete has made it, and only there. A deep stack
// alone, as that of a parser, and a TryComplete alone leave it to its caller.
func TestOnlyADeepRegistrationInATryIsLeftToAWorker(t *testing.T) {
	const deep = machine.DeepStack - 50 // so that the TryComplete is among the frames that are looked at
	for _, c := range []struct {
		frames int
		inTry  bool
	}{{0, false}, {deep, false}, {0, true}, {deep, true}} {
		p := onManualClock[int](t)
		p.LookAtStacks()
		workers := purgatory.HoldWorkers(t, p)
		inner, completed := &op{try: func() bool { return true }}, false
		register := func() {
			var err error
			completed, err = p.TryCompleteElseWatch(inner, hour, 2)
			assert.NoError(t, err)
		}
		if c.inTry {
			outer := &op{}
			outer.try = func() bool {
				if outer.tries.Load() == 1 {
					atDepth(c.frames, register)
				}
				return false
			}
			atDepth(100, func() { submit(t, p, outer, hour, 1) })
		} else {
			atDepth(100+c.frames, register)
		}
		assert.Equal(t, c.frames == 0 || !c.inTry, completed, "%+v", c)
		assert.Equal(t, completed, inner.completed.Load() == 1, "%+v", c)
		workers.Work()
		ended(t, inner, operation.Satisfied)
		assert.EqualValues(t, 1, inner.tries.Load())
	}
}

// atDepth calls f on a stack that is deeper by so many frames.
//
//go:noinline
func atDepth(frames int, f func()) {
	if frames == 0 {
		f()
		return
	}
	atDepth(frames-1, f)
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
		c := &chain{p: p, length: 500, reached: -1, key: func(int) int { return 7 }}
		c.end = func(c *chain, o *chained) { c.p.ForceComplete(o) }
		first := &chained{chain: c}
		submit(t, p, first, hour, 7)
		if name == "close" {
			c.length = 0 // the purgatory accepts no operation any more
		}
		begin(p, first)
		answered(t, p, int64(c.length+1))
	}
}

// A chain of completions in order, each begun in the TryComplete of the one before, keeps the stack small, also
// after the first batch.
func TestAChainOfChecksInOrderThroughTryCompleteKeepsTheStackSmall(t *testing.T) {
	const all = 20_000
	p := open[int](t, purgatory.WithWatcherShards(4))
	var deepest, ended atomic.Int64
	for i := range all {
		o := afterRegistration(func(*op) bool {
			if i%64 == 0 {
				deepest.Store(max(deepest.Load(), int64(depth())))
			}
			if i+1 < all {
				p.CheckAndCompleteInOrder(i + 1)
			}
			return true
		})
		o.complete = func() { ended.Add(1) }
		submit(t, p, o, hour, i)
	}
	p.CheckAndCompleteInOrder(0)
	eventually(t, func() bool { return ended.Load() == all }, "every operation completes")
	assert.Less(t, deepest.Load(), int64(10_000), "frames")
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
		"in order":     {call: func(h *handing) { h.p.CheckAndCompleteInOrder("k") }, says: bools{true, true, false, true, true}, tried: bools{true, true, true}, ended: outcomes{satisfied, satisfied}},
		"in order, no": {call: func(h *handing) { h.p.CheckAndCompleteInOrder("k") }, says: bools{false, true, true, true, true}, tried: bools{true}},
		"signal":       {call: func(h *handing) { h.p.Signal("k") }, says: bools{false, true, true, true, true}, tried: bools{true, true, true, true}, ended: outcomes{waits, satisfied, satisfied, satisfied}},
		"signal up to": {call: func(h *handing) { h.p.SignalUpTo("k", 5) }, says: bools{false, true, true, true, true}, tried: bools{true, true, true}, ended: outcomes{waits, satisfied, satisfied}},
		"signal twice": {call: func(h *handing) { h.p.SignalUpTo("k", 5); h.p.SignalUpTo("k", 4) }, says: bools{false, true, true, true, true}, tried: bools{true, true, true}, ended: outcomes{waits, satisfied, satisfied}},
		"signal in order": {
			call: func(h *handing) { h.p.SignalInOrder("k") }, says: bools{true, true, false, true, true}, tried: bools{true, true, true}, ended: outcomes{satisfied, satisfied},
		},
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
			for where, opts := range map[string][]purgatory.Option{"": nil, ", callbacks on workers": {purgatory.WithCallbacksOnWorkers()}} {
				t.Run(name+" "+place+where, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := &handing{p: onManualClock[string](t, append(opts, purgatory.WithWatcherShards(1))...)}
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
