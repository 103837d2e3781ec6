package purgatory

import (
	"bytes"
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
	"github.com/delayedop/purgatory/timer"
)

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
		p := newManual(t, WithWatcherShards(1))
		var inside atomic.Bool
		ended := make(chan bool, 1)
		inner := &teller{tell: func() { ended <- inside.Load() }}
		_, err := p.TryCompleteElseWatch(inner, time.Hour, "a")
		require.NoError(t, err)
		proceed := make(chan struct{})
		if deep { // the only worker is inside the outer callback
			blocked := inner.tell
			inner.tell = func() { <-proceed; blocked() }
		}
		outer := &teller{tell: func() {
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
			assert.False(t, p.watchers.Quiet(), "and is not answered")
		}
		close(proceed)
		select {
		case nested := <-ended:
			assert.Equal(t, !deep, nested, "%d frames", frames)
		case <-time.After(deadline):
			t.Fatal("it is not answered")
		}
		require.Eventually(t, p.idle, deadline, time.Millisecond)
	}
}

// nestOnce makes a check inside a TryComplete, so that the purgatory knows of nested checks and
// looks at the stack of every registration.
func nestOnce(t *testing.T, p *DelayedOperationPurgatory[string]) {
	t.Helper()
	op, nested := submit(t, p, time.Hour, "nests"), false
	op.while = func() {
		if !nested {
			nested = true
			p.CheckAndComplete("nests")
		}
	}
	p.CheckAndComplete("nests")
	require.True(t, p.nesting.found.Load())
}

// A registration on a deep stack makes its tries itself, unless it is inside a TryComplete.
func TestARegistrationOnADeepStackTriesItsOperation(t *testing.T) {
	p := newManual(t, WithWatcherShards(1))
	nestOnce(t, p)
	nest(machine.DeepStack, func() {
		completed, err := p.TryCompleteElseWatch(&probe{ready: true}, time.Hour, "a")
		assert.NoError(t, err)
		assert.True(t, completed)
	})
}

// A registration without time tries its operation once, also on a deep stack inside a
// TryComplete: no worker could try it before it expires.
func TestARegistrationWithoutTimeTriesItsOperationOnce(t *testing.T) {
	p := newManual(t, WithWatcherShards(1))
	nestOnce(t, p)
	var tries atomic.Int64
	outer := &probe{ready: true, while: func() {
		_, err := p.TryCompleteElseWatch(&probe{ready: true, while: func() { tries.Add(1) }}, 0, "a")
		assert.NoError(t, err)
	}}
	nest(machine.DeepStack, func() {
		_, err := p.TryCompleteElseWatch(outer, time.Hour, "b")
		assert.NoError(t, err)
	})
	require.Eventually(t, func() bool { return tries.Load() == 1 }, deadline, time.Millisecond)
}

// looksAfter reports whether a purgatory looks at the stack when the last tries of a shard's run have
// been made. It does so inside a TryComplete, since a look that finds one is remembered.
func looksAfter(run, tries int64) (looked bool) {
	var n nesting
	(&machine.Hold{Op: &probe{while: func() {
		n.afterTries(run, tries)
		looked = n.forbidsCheck()
	}}}).Try(false)
	return looked
}

// Checks look at the stack after 64 tries of a shard, each time that their number has doubled, and at
// last for each 4,096.
func TestTriesCauseFewLooksAtTheStack(t *testing.T) {
	for _, c := range []struct {
		run, tries int64
		looks      bool
	}{
		{1, 1, false},
		{63, 1, false},
		{63, 60, false},
		{64, 1, true},
		{65, 1, false},
		{127, 1, false},
		{128, 1, true},
		{100, 10, false},
		{100, 50, true},
		{4096, 1, true},
		{8191, 1, false},
		{8192, 1, true},
		{8192 + 2048, 1, false},
		{8192 + 4096, 1, true},
		{8192 + 4097, 1, false},
	} {
		assert.Equal(t, c.looks, looksAfter(c.run, c.tries), "the last %d of %d", c.tries, c.run)
	}
}

// Beside a crowd of callbacks, 64 completions look at the stack, and then one in eight, until a look
// finds a deep stack.
func TestACrowdCausesFewLooksAtTheStack(t *testing.T) {
	var n nesting
	looks := func(calls int) (count int) {
		for range calls {
			if n.occupiedGate() {
				count++
				_, _ = n.look()
			}
		}
		return count
	}
	for range 2 {
		assert.Equal(t, 64, looks(64))
		some := looks(8000)
		assert.Greater(t, some, 500)
		assert.Less(t, some, 2000)
		nest(machine.DeepStack, func() { _, _ = n.look() })
	}
	more := 0
	for range 500 {
		n = nesting{}
		looks(64)
		more += looks(1)
	}
	assert.Less(t, more, 250, "the next is one in eight already")
}

// A registration on a deep stack inside a TryComplete that the timer refuses leaves nothing behind: the
// operation can be submitted again.
func TestARefusedRegistrationOnADeepStackMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewManualTimer(timer.WithMaxPending(2))
		require.NoError(t, err)
		p, err := New[string]("test", WithTimer(clock), WithWatcherShards(1))
		require.NoError(t, err)
		defer p.Close()
		nestOnce(t, p) // one waits
		last, err := clock.AfterFunc(time.Hour, func() {})
		require.NoError(t, err)
		inner := &probe{}
		outer := &probe{ready: true, while: func() {
			_, err := p.TryCompleteElseWatch(inner, time.Hour, "a")
			assert.ErrorIs(t, err, ErrFull)
		}}
		nest(machine.DeepStack, func() {
			_, err := p.TryCompleteElseWatch(outer, time.Hour, "b")
			assert.NoError(t, err)
		})
		synctest.Wait() // no goroutine goes on with it
		require.True(t, last.Stop())
		completed, err := p.TryCompleteElseWatch(inner, time.Hour, "a")
		require.NoError(t, err)
		assert.False(t, completed)
	})
}

// A registration inside a TryComplete, under keys whose operations wait their turn, tries nobody
// there. Workers make the checks, in order.
func TestARegistrationInATryCompleteLeavesTheLineToWorkers(t *testing.T) {
	queue := make(chan func(), 100)
	p := newManual(t, WithFirstInFirstOut(), WithExecutor(func(run func()) error { queue <- run; return nil }))
	work := func() {
		for len(queue) > 0 {
			(<-queue)()
		}
	}
	nestOnce(t, p)
	work()
	var keys []string
	tries := map[string][]int{}
	for i := range 8 { // in several shards
		key := strconv.Itoa(i)
		keys, tries[key] = append(keys, key), make([]int, 2)
		for place := range 2 {
			submit(t, p, time.Hour, key).while = func() { tries[key][place]++ }
		}
		tries[key][0] = 0 // the second in line has made it try
	}
	outer := submit(t, p, time.Hour, "outer")
	outer.while = func() {
		outer.while = nil
		for _, key := range keys {
			submit(t, p, time.Hour, key)
			assert.Equal(t, []int{0, 0}, tries[key], "inside the TryComplete")
		}
	}
	p.CheckAndComplete("outer")
	work()
	for _, key := range keys {
		assert.Equal(t, []int{1, 0}, tries[key], "up to the first no")
	}
}

// leaver is an operation whose callbacks call runtime.Goexit.
type leaver struct {
	operation.DelayedOperation
	ready              bool
	completed, expired atomic.Int32
	stay               bool // OnComplete returns; only OnExpiration calls Goexit
	deep               bool // OnComplete ran on a stack of over 5,000 frames
}

func (l *leaver) TryComplete() bool { return l.ready }
func (l *leaver) OnExpiration()     { l.expired.Add(1); runtime.Goexit() }

func (l *leaver) OnComplete() {
	l.deep = runtime.Callers(5000, make([]uintptr, 1)) > 0
	l.completed.Add(1)
	if !l.stay {
		runtime.Goexit()
	}
}

// All callbacks of all operations run although callbacks call runtime.Goexit: within a
// batch, between two batches, and when the stack is so deep that workers go on.
func TestGoexitInACallbackSkipsNoOtherCallback(t *testing.T) {
	for _, n := range []int{1, 2, 2*batchSize + 1, 900} {
		for name, end := range map[string]func(p *DelayedOperationPurgatory[string], ops []*leaver){
			"CheckAndComplete": func(p *DelayedOperationPurgatory[string], ops []*leaver) {
				for _, op := range ops {
					op.ready = true
				}
				p.CheckAndComplete("a")
			},
			"CancelForKey": func(p *DelayedOperationPurgatory[string], _ []*leaver) { p.CancelForKey("a", nil) },
			"Close":        func(p *DelayedOperationPurgatory[string], _ []*leaver) { p.Close() },
		} {
			p := newManual(t)
			var ops []*leaver
			for range n {
				op := &leaver{}
				_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
				require.NoError(t, err)
				ops = append(ops, op)
			}
			apart(func() { end(p, ops) })
			require.Eventually(t, p.idle, deadline, time.Millisecond, "%s of %d", name, n)
			for _, op := range ops {
				assert.EqualValues(t, 1, op.completed.Load())
				assert.Zero(t, op.expired.Load())
				assert.False(t, op.deep, "its stack is bounded")
			}
			assert.Zero(t, p.watchers.Inside())
			assert.Zero(t, p.NumDelayed())
		}
	}
}

// OnExpiration runs after an OnComplete that called runtime.Goexit, on the same goroutine or
// on a worker.
func TestOnExpirationRunsAfterGoexitInOnComplete(t *testing.T) {
	for _, stay := range []bool{false, true} {
		for _, frames := range []int{0, machine.DeepStack, 5000} {
			p := newManual(t)
			op := &leaver{stay: stay}
			_, err := p.TryCompleteElseWatch(op, time.Second, "a")
			require.NoError(t, err)
			apart(func() { nest(frames, func() { p.AdvanceClock(time.Minute) }) })
			require.Eventually(t, p.idle, deadline, time.Millisecond)
			assert.EqualValues(t, 1, op.completed.Load())
			assert.EqualValues(t, 1, op.expired.Load(), "%d frames", frames)
			assert.Equal(t, operation.Expired, op.Outcome())
			assert.Zero(t, p.watchers.Inside())
		}
	}
}

// While a worker is free, callbacks that were handed over run, however many others block. A
// worker that a callback ends by runtime.Goexit is replaced.
func TestHandedCallbacksRunOnAnyFreeWorker(t *testing.T) {
	const n = 8
	p := newManual(t, WithSignalWorkers(n))
	var running, ended atomic.Int32
	together := make(chan struct{})
	for i := range n {
		op := &teller{tell: func() {
			defer ended.Add(1)
			if running.Add(1) == n {
				close(together)
			}
			<-together
			if i%2 == 0 {
				runtime.Goexit()
			}
		}}
		_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
		require.NoError(t, err)
	}
	p.close(true)
	select {
	case <-together:
	case <-time.After(deadline):
		t.Fatal("one waits for another")
	}
	require.Eventually(t, p.idle, deadline, time.Millisecond)
	assert.EqualValues(t, n, ended.Load())
}

// A chain whose operations wait in different shards, each of them behind a gate of its
// own while there are gates, nests no deeper than there are gates.
func TestAChainNestsNoDeeperThanThereAreGates(t *testing.T) {
	const length = 2000
	p := newManual(t, WithWatcherShards(1<<13))
	var keys []string
	taken := make(map[any]bool)
	for i := 0; len(keys) < length; i++ {
		key := strconv.Itoa(i)
		if shard := p.watchers.Shard(p.watchers.Hash(key)); !taken[shard] {
			taken[shard] = true
			keys = append(keys, key)
		}
	}
	links := make([]link, length)
	done := make(chan struct{})
	var deepest atomic.Int64
	for i := range links {
		links[i].complete = func() {
			if i == length-1 {
				close(done)
				return
			}
			if i%10 == 0 {
				deepest.Store(max(deepest.Load(), int64(runtime.Callers(0, make([]uintptr, 30*length)))))
			}
			p.ForceComplete(&links[i+1])
		}
		_, err := p.TryCompleteElseWatch(&links[i], time.Hour, keys[i])
		require.NoError(t, err)
	}
	p.ForceComplete(&links[0])
	<-done
	assert.Less(t, deepest.Load(), int64(8000), "frames")
}

// link is an operation of a chain.
type link struct {
	probe
	complete func()
}

func (l *link) OnComplete() { l.complete() }

// A walk that ends operations on a deep stack leaves their callbacks to a worker. The next walk,
// which uses the same memory, does not.
func TestAWalkAfterADeepOneRunsCallbacksItself(t *testing.T) {
	p := newManual(t, WithWatcherShards(1))
	on := make(chan string, 1)
	wait := func(key string, tell func()) {
		_, err := p.TryCompleteElseWatch(&teller{tell: tell}, time.Hour, key)
		require.NoError(t, err)
	}
	where := func() { on <- string(goroutine()) }
	here := string(goroutine())
	for range 10 { // the pool of another processor may have a walk that was not deep
		wait("a", where)
		wait("b", func() {
			nest(machine.DeepStack, func() { assert.Equal(t, 1, p.CancelForKey("a", nil)) })
		})
		require.Equal(t, 1, p.CancelForKey("b", nil))
		assert.NotEqual(t, here, <-on, "the stack was deep")
		require.Eventually(t, p.idle, deadline, time.Millisecond)
		for range 3 {
			wait("c", where)
			require.Equal(t, 1, p.CancelForKey("c", nil))
			require.Equal(t, here, <-on)
		}
	}
}

// goroutine returns how the runtime names the calling goroutine in a stack: "goroutine 18 ".
func goroutine() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	return buf[:bytes.IndexByte(buf, '[')]
}
