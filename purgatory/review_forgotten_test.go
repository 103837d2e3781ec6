package purgatory_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// A signal that no worker has taken when the timeout passes is not a check that was forgotten.
func TestASignalThatWaitsForAWorkerIsNotForgotten(t *testing.T) {
	for _, keys := range [][]string{{"a"}, {"a", "b"}, {"b", "a"}} {
		aSignalThatWaits(t, keys)
	}
}

func aSignalThatWaits(t *testing.T, keys []string) {
	t.Helper()
	p := onManualClock[string](t, purgatory.WithForgottenChecks(time.Millisecond))
	held := purgatory.HoldWorkers(t, p)
	var met atomic.Bool
	o := until(&met)
	submit(t, p, o, time.Second, keys...)
	met.Store(true)
	p.Signal("a")
	p.AdvanceClock(time.Second)
	ended(t, o, operation.Satisfied)
	held.Work()
	time.Sleep(50 * time.Millisecond)
	assert.Zero(t, p.Stats().Forgotten)
}

// A check that comes while the last try runs is not forgotten either.
func TestACheckDuringTheLastTryIsNotForgotten(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithForgottenChecks(time.Millisecond))
	var met atomic.Bool
	g := newGate()
	o := &op{}
	o.try = func() bool {
		if met.Load() {
			g.pass()
			return true
		}
		return false
	}
	submit(t, p, o, time.Second, "a")
	met.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { p.AdvanceClock(time.Second) })
	<-g.entered
	p.CheckAndComplete("a")
	close(g.leave)
	wg.Wait()
	ended(t, o, operation.Satisfied)
	time.Sleep(50 * time.Millisecond)
	assert.Zero(t, p.Stats().Forgotten)
}

// named is an operation whose String method is slow.
type named struct {
	op
	inString *gate
}

func (o *named) String() string { o.inString.pass(); return "named" }

// A check that comes when the last try is over and the operation has not ended is not forgotten.
func TestACheckJustAfterTheLastTryIsNotForgotten(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithForgottenChecks(time.Millisecond))
	var met atomic.Bool
	o := &named{inString: newGate()}
	o.try = met.Load
	submit(t, p, o, time.Second, "a")
	met.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { p.AdvanceClock(time.Second) })
	<-o.inString.entered
	p.CheckAndComplete("a")
	close(o.inString.leave)
	wg.Wait()
	ended(t, &o.op, operation.Satisfied)
	time.Sleep(50 * time.Millisecond)
	assert.Zero(t, p.Stats().Forgotten)
}
