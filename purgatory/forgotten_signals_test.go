package purgatory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// readyAtItsTimeout has an operation on keys reach its timeout while its condition is met.
func readyAtItsTimeout(t *testing.T, p *stringPurgatory, keys ...string) {
	t.Helper()
	o := &op{}
	o.try = func() bool { return o.tries.Load() > 2 }
	submit(t, p, o, time.Second, keys...)
	p.AdvanceClock(time.Second)
	ended(t, o, operation.Satisfied)
}

// A signal within the grace is a check that was not forgotten, though no worker has time for it; so
// is a method that ends every operation of the key.
func TestASignalWithinTheGraceSufficesWithoutAWorker(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory){
		"signal":          func(p *stringPurgatory) { p.Signal("b") },
		"signal of two":   func(p *stringPurgatory) { p.Signal("b", "c") },
		"signal up to":    func(p *stringPurgatory) { p.SignalUpTo("b", 1) },
		"signal in order": func(p *stringPurgatory) { p.SignalInOrder("b") },
		"signal all":      func(p *stringPurgatory) { p.SignalAll() },
		"cancel":          func(p *stringPurgatory) { p.CancelForKey("b", nil) },
		"cancel matching": func(p *stringPurgatory) { p.CancelMatching("b", nil, func(operation.Operation) bool { return true }) },
		"complete":        func(p *stringPurgatory) { p.CompleteForKey("b") },
		"cancel another":  func(p *stringPurgatory) { p.CancelForKey("c", nil) },
		"nothing":         func(*stringPurgatory) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := onManualClock[string](t, purgatory.WithForgottenChecks(time.Second))
				held := purgatory.HoldWorkers(t, p)
				submitted(t, p, "b", "c") // somebody waits for the keys, so that a signal needs a worker
				readyAtItsTimeout(t, p, "a", "b")
				check(p)
				time.Sleep(time.Minute)
				forgotten := map[string]int64{"nothing": 1, "cancel another": 1}[name]
				assert.Equal(t, forgotten, p.Stats().Forgotten)
				held.Work()
			})
		})
	}
}

// A signal that a worker has taken when the timeout passes, and whose check finds the operation no
// more, is not forgotten either.
func TestASignalThatAWorkerHasTakenIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p := onManualClock[string](t, purgatory.WithForgottenChecks(time.Second), purgatory.WithWatcherShards(1))
		held := purgatory.HoldWorkers(t, p)
		first := &op{}
		first.try = func() bool {
			if first.tries.Load() > 2 {
				g.pass()
			}
			return false
		}
		submit(t, p, first, hour, "a")
		o := &op{}
		o.try = func() bool { return o.tries.Load() > 2 }
		submit(t, p, o, time.Second, "a")
		p.Signal("a")
		wait := inBackground(held.Work) // takes the signal, and tries the first one of "a"
		<-g.entered
		p.AdvanceClock(time.Second)
		ended(t, o, operation.Satisfied)
		close(g.leave)
		wait()
		time.Sleep(time.Minute)
		assert.Zero(t, p.Stats().Forgotten)
	})
}

// An operation may wait for a key twice. The next one that is ready at its timeout can be cleared
// all the same.
func TestACheckClearsAnOperationThatHasItsKeyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := onManualClock[string](t, purgatory.WithForgottenChecks(time.Second))
		for _, keys := range [][]string{{"a", "a"}, {"b"}, {"b", "a", "b"}, {"b"}} {
			readyAtItsTimeout(t, p, keys...)
			p.CheckAndComplete(keys[0])
			time.Sleep(time.Minute)
			assert.Zero(t, p.Stats().Forgotten, "%v", keys)
		}
		readyAtItsTimeout(t, p, "b")
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, p.Stats().Forgotten, "this one is not cleared")
	})
}

// A last try that is running when the purgatory closes decides about its operation, and nothing is
// counted or logged afterwards.
func TestALastTryThatOutlivesClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := onManualClock[string](t, purgatory.WithForgottenChecks(time.Second))
		g := newGate()
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() == 3 {
				g.pass()
				return true
			}
			return false
		}
		submit(t, p, o, time.Second, "a")
		wait := inBackground(func() { p.AdvanceClock(time.Second) })
		<-g.entered
		require.NoError(t, p.Close())
		close(g.leave)
		wait()
		ended(t, o, operation.Satisfied)
		require.NoError(t, p.Shutdown(t.Context()))
		time.Sleep(time.Minute)
		assert.Zero(t, p.Stats().Forgotten)
	})
}
