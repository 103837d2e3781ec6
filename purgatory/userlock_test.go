package purgatory_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

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
