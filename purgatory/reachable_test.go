package purgatory_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/purgatory"
)

// Tests that what callers have handed in is not kept when it has served its purpose.

// An action that has run, with all that it refers to, is not kept while a later one blocks.
func TestABlockedActionKeepsNoEarlierAction(t *testing.T) {
	var q purgatory.ActionQueue
	var all []weak.Pointer[op]
	for range 5 {
		all = append(all, addUsing(&q))
	}
	g := newGate()
	q.Add(g.pass)
	q.Add(func() {})
	wait := inBackground(q.Run)
	<-g.entered
	gone(t, all)
	close(g.leave)
	wait()
	runtime.KeepAlive(&q)
}

//go:noinline
func addUsing(q *purgatory.ActionQueue) weak.Pointer[op] {
	o := &op{}
	q.Add(func() { o.tries.Add(1) })
	return weak.Make(o)
}

// When an Await has returned, its function, with all that it refers to, is not kept, although the
// memory of the wait is.
func TestAnAwaitKeepsNothingOfItsFunction(t *testing.T) {
	for name, cause := range map[string]error{"cancelled": errGone, "its context": context.Canceled, "satisfied": nil} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			gone(t, []weak.Pointer[op]{awaited(t, p, cause)})
			empty(t, p)
		})
	}
}

//go:noinline
func awaited(t *testing.T, p *stringPurgatory, cause error) weak.Pointer[op] {
	t.Helper()
	o := &op{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := inBackground(func() {
		for p.Waiting("a") == 0 {
			runtime.Gosched()
		}
		switch {
		case errors.Is(cause, context.Canceled):
			cancel()
		case cause != nil:
			p.CancelForKey("a", cause)
		default:
			p.CheckAndComplete("a")
		}
	})
	assert.ErrorIs(t, p.Await(ctx, hour, func() bool { return o.tries.Add(1) > 2 && cause == nil }, "a"), cause)
	ended() // a walk refers to what it has ended, until it is over
	return weak.Make(o)
}

// What is kept of a callback that was timed refers to no operation.
func TestATimedCallbackKeepsNoOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithSlowCallback(hour))
	all := forcedWeakly(t, p)
	gone(t, all)
	empty(t, p)
}
