package purgatory_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// A small group coordinator: its callbacks take the lock under which it adds actions.
func TestActionsRunAfterTheCallerUnlocks(t *testing.T) {
	p := open[int](t)
	var mu sync.Mutex
	var actions purgatory.ActionQueue
	locked := func(f func()) {
		defer actions.Run()
		mu.Lock()
		defer mu.Unlock()
		f()
	}
	members, answered := 0, 0
	join := &op{}
	join.try = func() bool { mu.Lock(); defer mu.Unlock(); return members == 100 }
	join.complete = func() { locked(func() { answered++ }) }
	locked(func() {
		actions.Add(func() { submit(t, p, join, hour, 1) })
		assert.Equal(t, operation.Pending, join.Outcome(), "nothing runs under the lock")
	})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			locked(func() {
				members++
				actions.Add(func() { p.CheckAndComplete(1) })
			})
		})
	}
	wg.Wait()
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return answered == 1 }, "the last member's check")
	ended(t, join, operation.Satisfied)
}

func TestActionsRunInOrderOneAtATime(t *testing.T) {
	var mu sync.Mutex
	var q purgatory.ActionQueue
	var got []int
	var inside atomic.Int32
	const all = 2000
	next := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				mu.Lock()
				n := next
				if n == all {
					mu.Unlock()
					return
				}
				next++
				q.Add(func() {
					assert.EqualValues(t, 1, inside.Add(1))
					got = append(got, n)
					runtime.Gosched()
					inside.Add(-1)
				})
				mu.Unlock()
				q.Run()
			}
		})
	}
	wg.Wait()
	eventually(t, func() bool {
		done := make(chan int)
		q.Add(func() { done <- len(got) })
		go q.Run()
		return <-done == all
	}, "all have run")
	for i, n := range got {
		require.Equal(t, i, n)
	}
}

func TestAPanickingActionStopsNoOtherAction(t *testing.T) {
	for name, misdeed := range misdeeds {
		var q purgatory.ActionQueue
		var ran atomic.Int32
		q.Add(misdeed)
		for range 300 {
			q.Add(func() { ran.Add(1) })
		}
		inBackground(func() {
			if name == "panic" {
				assert.Panics(t, q.Run)
			} else {
				q.Run()
			}
		})()
		eventually(t, func() bool { return ran.Load() == 300 }, name)
	}
}

func TestAnActionAddedByAnActionRunsAfterIt(t *testing.T) {
	var q purgatory.ActionQueue
	var n atomic.Int32
	var seen deepest
	var again func()
	again = func() {
		seen.look()
		if n.Add(1) < 10_000 {
			q.Add(again)
			q.Run()
		}
	}
	q.Add(again)
	q.Run()
	eventually(t, func() bool { return n.Load() == 10_000 }, "they go on")
	assert.Less(t, seen.frames.Load(), int64(200))
}

func TestAddPanicsOnANilAction(t *testing.T) {
	var q purgatory.ActionQueue
	assert.PanicsWithValue(t, "purgatory: ActionQueue.Add(nil)", func() { q.Add(nil) })
	ran := false
	q.Add(func() { ran = true })
	q.Run()
	assert.True(t, ran)
}
