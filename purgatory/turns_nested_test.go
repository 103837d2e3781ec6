package purgatory_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Other checks in order that come all the time do not keep the caller of one: a worker goes on.
func TestOthersDoNotKeepTheCallerOfACheckInOrder(t *testing.T) {
	const all = 300
	p := onManualClock[string](t)
	o := afterRegistration(func(o *op) bool {
		if o.tries.Load() < all {
			inBackground(func() { p.CheckAndCompleteInOrder("a") })()
		}
		return o.tries.Load() == all
	})
	submit(t, p, o, hour, "a")
	p.CheckAndCompleteInOrder("a")
	eventually(t, func() bool { return o.completed.Load() == 1 }, "workers go on")
	ended(t, o, operation.Satisfied)
	assert.Positive(t, p.Stats().Signals, "the caller has left the rest to a worker")
}

// A check in order of a key for which nobody waits, but in whose list another check stands, keeps no
// turn: the next one serves who comes later.
func TestACheckInOrderThatFindsNobodyKeepsNoTurn(t *testing.T) {
	p := onManualClock[string](t)
	g := newGate()
	blocks := &op{complete: g.pass}
	submit(t, p, blocks, hour, "a")
	var rest []*op
	for range 200 { // more than a walk takes at once, so that it stands in the list
		rest = append(rest, submitted(t, p, "a"))
	}
	wait := inBackground(func() { p.CompleteForKey("a") })
	<-g.entered
	for _, o := range rest {
		p.ForceComplete(o)
	}
	require.Zero(t, p.NumDelayed())
	assert.Zero(t, p.CheckAndCompleteInOrder("a"))
	assert.Zero(t, p.Stats().Signals, "nothing is left to a worker")
	late := afterRegistration(func(*op) bool { return true })
	submit(t, p, late, hour, "a")
	assert.Equal(t, 1, p.CheckAndCompleteInOrder("a"))
	ended(t, late, operation.Satisfied)
	close(g.leave)
	wait()
}

// A check inside a TryComplete that is left to a worker is made by it, and nothing of it is kept
// meanwhile.
func TestANestedCheckThatIsLeftKeepsNothing(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory) int{
		"check":    func(p *stringPurgatory) int { return p.CheckAndComplete("b") },
		"in order": func(p *stringPurgatory) int { return p.CheckAndCompleteInOrder("b") },
		"up to":    func(p *stringPurgatory) int { return p.CheckAndCompleteUpTo("b", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithWatcherShards(1))
			held := purgatory.HoldWorkers(t, p)
			all := submittedWeakly(t, p, new(atomic.Bool), 5, "b")
			nests := afterRegistration(func(*op) bool {
				assert.Zero(t, check(p))
				return false
			})
			submit(t, p, nests, hour, "a")
			p.CheckAndComplete("a")
			require.True(t, held.Waiting(), "it is left to a worker")
			forceAll(t, p, all)
			gone(t, all)
			late := afterRegistration(func(*op) bool { return true })
			submit(t, p, late, hour, "b")
			if name == "in order" {
				assert.Equal(t, 1, p.CheckAndCompleteInOrder("b"), "the turn has ended")
			} else {
				assert.Equal(t, 1, p.CheckAndComplete("b"))
			}
			held.Work()
			ended(t, late, operation.Satisfied)
		})
	}
}

// Operations that a worker has answered are not kept while it runs the callback of another one that
// has ended with them.
func TestABlockedWorkerKeepsNoAnsweredOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithCallbacksOnWorkers())
	held := purgatory.HoldWorkers(t, p)
	all := submittedWeakly(t, p, new(atomic.Bool), 5, "a")
	g := newGate()
	submit(t, p, &op{complete: g.pass}, hour, "a")
	submitted(t, p, "a")
	require.Equal(t, 7, p.CompleteForKey("a"))
	wait := inBackground(held.Work)
	<-g.entered
	gone(t, all)
	close(g.leave)
	wait()
	held.Release()
	require.NoError(t, p.Shutdown(t.Context()))
}
