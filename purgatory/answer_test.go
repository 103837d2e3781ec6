package purgatory

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
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
			assert.NotZero(t, p.watchers.Unanswered(), "and is not answered")
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

// A registration on a deep stack makes its tries itself, unless it is inside a TryComplete.
func TestARegistrationOnADeepStackTriesItsOperation(t *testing.T) {
	p := newManual(t, WithWatcherShards(1))
	nest(machine.DeepStack, func() {
		completed, err := p.TryCompleteElseWatch(&probe{ready: true}, time.Hour, "a")
		assert.NoError(t, err)
		assert.True(t, completed)
	})
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
