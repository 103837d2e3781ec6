package purgatory_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Callbacks may call every method that does not block.

// depth returns the number of frames on this goroutine's stack, up to 20,000.
func depth() int {
	pcs := make([]uintptr, 20_000)
	return runtime.Callers(0, pcs)
}

// A goroutine holds a lock of its own while CheckAndComplete runs a callback that does not
// take the lock. Neither waits for the other: KAFKA-2821, 6042, 7697, 18129, 20505.
func TestALockHeldAcrossACheckBlocksNobody(t *testing.T) {
	p := onManualClock[string](t)
	var mu sync.Mutex
	var met atomic.Bool
	first, second := until(&met), until(&met)
	inCallback, leave := make(chan struct{}), make(chan struct{})
	first.complete = func() { close(inCallback); <-leave }
	submit(t, p, first, hour, "a")
	wait := inBackground(func() {
		mu.Lock()
		defer mu.Unlock()
		met.Store(true)
		p.CheckAndComplete("a")
	})
	<-inCallback // mu is held, and a callback of a is under way
	assert.False(t, mu.TryLock())
	met.Store(false)
	submit(t, p, second, hour, "a", "b")
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete("a"), "another goroutine completes under the same key")
	ended(t, second, operation.Satisfied)
	last := submitted(t, p, "a")
	assert.True(t, p.ForceComplete(last))
	p.AdvanceClock(hour)
	close(leave)
	wait()
	ended(t, first, operation.Satisfied)
	empty(t, p)
}

func TestSignalDoesNotDeadlockUnderTheCallbacksLock(t *testing.T) {
	p := open[string](t, purgatory.WithoutReaper()) // the reaper would try the operation later
	var mu sync.Mutex
	var met atomic.Bool
	o := until(&met)
	o.complete = func() { mu.Lock(); defer mu.Unlock() }
	submit(t, p, o, hour, "a")
	mu.Lock()
	met.Store(true)
	p.Signal("a") // CheckAndComplete would deadlock
	for range 100 {
		runtime.Gosched()
	}
	mu.Unlock()
	eventually(t, func() bool { return o.completed.Load() == 1 && p.NumDelayed() == 0 }, "it completes")
}

func TestKAFKA8334OtherCodeMayHoldTheUsersLock(t *testing.T) {
	// Kafka's pending flag helped only where the holder of the lock looked at it: while
	// other code held the group's lock, operations waited until their timeout.
	p := onManualClock[string](t)
	var group sync.Mutex // TryComplete takes it, and so does code that does not use the purgatory
	ready := false
	o := &op{try: func() bool { group.Lock(); defer group.Unlock(); return ready }}
	submit(t, p, o, hour, "group")
	group.Lock()
	first := inBackground(func() { p.CheckAndComplete("group") }) // waits for the lock, inside the check
	eventually(t, func() bool { return o.tries.Load() == 3 }, "inside TryComplete")
	ready = true
	assert.Zero(t, p.CheckAndComplete("group"), "leaves its mark, under the lock that the check needs")
	group.Unlock()
	first()
	ended(t, o, operation.Satisfied)
}

func TestKAFKA2821ACheckUnderALockDeadlocksNoOther(t *testing.T) {
	// Two goroutines call CheckAndComplete, each with a lock of its own held. They do not
	// deadlock if no callback takes one of the locks; otherwise they use Signal.
	p := onManualClock[string](t)
	var mine sync.Mutex
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for range 500 {
				var met atomic.Bool
				o := until(&met)
				_, err := p.TryCompleteElseWatch(o, hour, "a", "b")
				assert.NoError(t, err)
				met.Store(true)
				if g == 0 {
					mine.Lock()
					p.CheckAndComplete("a")
					mine.Unlock()
				} else {
					p.CheckAndComplete("b")
				}
				eventually(t, func() bool { return o.completed.Load() == 1 }, "by one of the two")
			}
		})
	}
	wg.Wait()
	empty(t, p)
}

// looped is an operation of a server that keeps its state on one goroutine, without a lock.
type looped struct {
	operation.DelayedOperation
	state *loop
	at    int
	ended func()
}

type loop struct{ reached, tries int } // only the goroutine of the loop may read and write it

func (o *looped) TryComplete() bool { o.state.tries++; return o.state.reached >= o.at }
func (o *looped) OnComplete()       { o.ended() }
func (o *looped) OnExpiration()     {}

// While one goroutine makes all registrations and checks, only it calls TryComplete, whoever
// else ends the operations. The race detector shows a violation.
func TestOnlyWhoRegistersAndChecksTries(t *testing.T) {
	p := open[int](t, purgatory.WithTick(50*time.Microsecond), purgatory.WithDiagnostics())
	const rounds, keys = 5_000, 3
	var state loop
	var pending sync.WaitGroup
	ended := func() { pending.Done() }
	others := make(chan *looped, rounds)
	var enders sync.WaitGroup
	for i := range 3 {
		enders.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for o := range others {
				switch r.IntN(5) {
				case 0:
					p.Cancel(o, nil)
				case 1:
					p.ForceComplete(o)
				case 2:
					p.CancelForKey(r.IntN(keys), nil)
				case 3:
					p.Extend(o, time.Duration(r.IntN(2_000_000)))
				case 4:
					_ = p.Stats()
					p.Waiting(r.IntN(keys))
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range rounds { // the goroutine of the loop
		o := &looped{state: &state, at: state.reached + r.IntN(4), ended: ended}
		pending.Add(1)
		_, err := p.TryCompleteElseWatch(o, time.Duration(r.IntN(300_000)), r.IntN(keys), keys+r.IntN(keys))
		require.NoError(t, err)
		others <- o
		state.reached += r.IntN(2)
		p.CheckAndComplete(r.IntN(keys), keys+r.IntN(keys))
	}
	close(others)
	enders.Wait()
	for i, end := range []func(o *looped){ // whichever way the others have ended, these end in each
		func(o *looped) { p.Extend(o, 0) },
		func(o *looped) { p.Cancel(o, nil) },
		func(o *looped) { p.ForceComplete(o) },
	} {
		pending.Add(1)
		o := &looped{state: &state, at: math.MaxInt, ended: ended}
		_, err := p.TryCompleteElseWatch(o, hour, i)
		require.NoError(t, err)
		inBackground(func() { end(o) })()
	}
	eventually(t, func() bool { return p.Stats().Expired > 0 }, "an expiry")
	require.NoError(t, p.Close())
	pending.Wait()
	s := p.Stats()
	assert.GreaterOrEqual(t, state.tries, rounds)
	assert.Positive(t, s.Satisfied)
	assert.Positive(t, s.Expired)
	assert.Positive(t, s.Cancelled)
	assert.Positive(t, s.Forced)
}

// With one worker, the callbacks of what is signalled run one after the other, and those of a key in order of position.
func TestOneWorkerRunsWhatIsSignalledOneAtATime(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWorkers(1))
	var reached, inside atomic.Int64
	var order []int64 // the worker's
	const n = 1000
	reached.Store(-1)
	for i := range int64(n) {
		position := i * 7919 % n
		o := &op{try: func() bool { return position <= reached.Load() }}
		o.complete = func() {
			assert.EqualValues(t, 1, inside.Add(1), "callbacks overlap")
			order = append(order, position)
			inside.Add(-1)
		}
		_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[int]{Key: 1, Position: position})
		require.NoError(t, err)
	}
	for end := int64(9); end < n; end += 10 {
		reached.Store(end)
		p.SignalUpTo(1, end)
	}
	require.NoError(t, p.Shutdown(t.Context()))
	require.Len(t, order, n)
	assert.IsIncreasing(t, order)
}

// deepest is the maximum, in frames, of the stacks of the goroutines that call look.
type deepest struct{ frames atomic.Int64 }

func (d *deepest) look() {
	for n := int64(depth()); ; {
		was := d.frames.Load()
		if n <= was || d.frames.CompareAndSwap(was, n) {
			return
		}
	}
}

func TestKAFKA3994NoLockIsHeldWhileUserCodeRuns(t *testing.T) {
	// There are two operations. TryComplete and OnComplete of each take the other's lock and
	// check the other's key.
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	var locks [2]sync.Mutex
	var met atomic.Bool
	var ops [2]*op
	for i := range ops {
		o := &op{}
		o.try = func() bool { locks[i].Lock(); defer locks[i].Unlock(); return met.Load() }
		o.complete = func() {
			locks[1-i].Lock()
			locks[1-i].Unlock() //nolint:staticcheck // an empty section shows that the lock is free
			p.CheckAndComplete(1 - i)
			p.CheckAndComplete(i)
		}
		ops[i] = o
		submit(t, p, o, hour, i)
	}
	met.Store(true)
	var wg sync.WaitGroup
	for i := range ops {
		wg.Go(func() { p.CheckAndComplete(i) })
	}
	wg.Wait()
	for _, o := range ops {
		ended(t, o, operation.Satisfied)
	}
}
