package purgatory_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestAPanicInTheSecondTryCountsAsFalse(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	o := &op{}
	o.try = func() bool {
		switch n := o.tries.Load(); {
		case n == 2:
			p.CheckAndComplete("a") // a mark
		case n > 2 && n < 20:
			panic("while looking again")
		}
		return false
	}
	submit(t, p, o, hour, "a")
	assert.EqualValues(t, 3, o.tries.Load())
	assert.EqualValues(t, 1, told.n.Load())
	pending(t, o)
}

func TestAPanicIsCountedThoughTheHandlerCallsGoexit(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { runtime.Goexit() }))
	o := submitted(t, p, "a")
	o.complete = func() { panic("wrong") }
	inBackground(func() { p.ForceComplete(o) })()
	assert.EqualValues(t, 1, p.Stats().Panics)
}

// A panic in the first try is reported though the registration is refused.
func TestAPanicBeforeARefusalIsReported(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option(), purgatory.WithMaxPending(1))
	submitted(t, p, "a")
	_, err := p.TryCompleteElseWatch(&op{try: func() bool { panic("of the test") }}, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrFull)
	assert.EqualValues(t, 1, told.n.Load())
}

// misdeeds are what a callback may do wrong without harm to other operations.
var misdeeds = map[string]func(){
	"panic":  func() { panic("of the user's") },
	"Goexit": runtime.Goexit,
}

func TestPanicOrGoexitInACallbackStopsNoOther(t *testing.T) {
	const ops, bad = 400, 7 // several batches, every seventh misbehaves
	ends := map[string]func(p *stringPurgatory, met *atomic.Bool){
		"check":  func(p *stringPurgatory, met *atomic.Bool) { met.Store(true); p.CheckAndComplete("a") },
		"cancel": func(p *stringPurgatory, _ *atomic.Bool) { p.CancelForKey("a", errGone) },
		"expire": func(p *stringPurgatory, _ *atomic.Bool) { p.AdvanceClock(hour) },
		"close":  func(p *stringPurgatory, _ *atomic.Bool) { _ = p.Close() },
	}
	for misdeed, commit := range misdeeds {
		for name, end := range ends {
			for _, where := range []string{"OnComplete", "OnExpiration"} {
				if where == "OnExpiration" && name != "expire" {
					continue
				}
				t.Run(misdeed+" in "+where+" on "+name, func(t *testing.T) {
					var told panics
					p := onManualClock[string](t, told.option())
					var met atomic.Bool
					all := make([]*op, ops)
					for i := range all {
						o := until(&met)
						all[i] = o
						if i%bad == 0 && where == "OnComplete" {
							o.complete = commit
						} else if i%bad == 0 {
							o.expire = commit
						}
						submit(t, p, o, time.Second, "a", []string{"b", "c", "d"}[i%3])
					}
					inBackground(func() { end(p, &met) })()
					for p.NumDelayed() > 0 { // each Goexit ends the goroutine that advances the clock
						inBackground(func() { p.AdvanceClock(0) })()
					}
					expirations := int32(0)
					if name == "expire" {
						expirations = 1
					}
					eventually(t, func() bool {
						return p.Stats().Running == 0 && !slices.ContainsFunc(all, func(o *op) bool {
							return o.completed.Load() == 0 || o.expired.Load() < expirations
						})
					}, "the callbacks")
					for i, o := range all {
						require.EqualValues(t, 1, o.completed.Load(), "OnComplete of %d", i)
						require.Equal(t, expirations, o.expired.Load(), "OnExpiration of %d", i)
					}
					if misdeed == "panic" {
						assert.EqualValues(t, (ops+bad-1)/bad, told.n.Load(), "never swallowed")
						assert.EqualValues(t, told.n.Load(), p.Stats().Panics)
					}
					empty(t, p)
					assert.EqualValues(t, ops, conserved(t, p).Accepted)
				})
			}
		}
	}
}

// KAFKA-17234: a panic stopped the operations behind it.
func TestPanicOrGoexitInTryCompleteCountsAsFalse(t *testing.T) {
	for misdeed, commit := range misdeeds {
		for at, stage := range map[int32]string{1: "first try", 2: "second try", 3: "check", 4: "look after a mark"} {
			t.Run(misdeed+" in the "+stage, func(t *testing.T) {
				var told panics
				p := onManualClock[string](t, told.option())
				o := &op{}
				o.try = func() bool {
					if o.tries.Load() == at-1 && stage == "look after a mark" {
						p.CheckAndComplete("a")
					}
					if o.tries.Load() == at {
						commit()
					}
					return false
				}
				before, after := submitted(t, p, "a"), &op{}
				var met atomic.Bool
				before.try, after.try = met.Load, met.Load
				inBackground(func() { _, _ = p.TryCompleteElseWatch(o, time.Second, "a", "b") })()
				submit(t, p, after, hour, "a")
				assert.Equal(t, 3, p.NumDelayed())
				met.Store(true)
				n := -1
				inBackground(func() { n = p.CheckAndComplete("a") })()
				// Goexit ends a goroutine before it counts, or leaves the second try to a worker,
				// which checks the key; a nested check has a count of its own.
				if misdeed == "panic" && at <= 3 || at == 2 {
					assert.Equal(t, 2, n, "the others")
				}
				eventually(t, func() bool { return before.completed.Load()+after.completed.Load() == 2 }, "here, or on the worker of the nested check")
				ended(t, before, operation.Satisfied)
				ended(t, after, operation.Satisfied)
				if stage == "look after a mark" {
					eventually(t, func() bool { return o.tries.Load() >= at }, "the nested check is made by a worker")
				}
				pending(t, o)
				p.AdvanceClock(time.Second)
				eventually(t, func() bool { return o.expired.Load() == 1 }, "a worker may be trying it, because of the nested check")
				ended(t, o, operation.Expired)
				reported := map[string]int{"panic": 1, "Goexit": 0}[misdeed]
				eventually(t, func() bool { return int(told.n.Load()) == reported }, "a worker reports it when its batch is over")
				assert.EqualValues(t, reported, p.Stats().Panics)
				empty(t, p)
			})
		}
	}
}

func TestPanicOrGoexitInTryCompleteLosesNoCancellation(t *testing.T) {
	for misdeed, commit := range misdeeds {
		t.Run(misdeed, func(t *testing.T) {
			var told panics
			p := onManualClock[string](t, told.option())
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() == 3 {
					p.Cancel(o, errGone)
					commit()
				}
				return false
			}
			submit(t, p, o, hour, "a")
			inBackground(func() { p.CheckAndComplete("a") })()
			endsSoon(t, o, operation.Cancelled)
			assert.Equal(t, errGone, o.Cause())
		})
	}
}

func TestAFailingPanicHandlerStopsNoOtherOperation(t *testing.T) {
	// A handler that calls t.Fatal calls runtime.Goexit.
	for misdeed, commit := range misdeeds {
		if misdeed == "panic" {
			restore := slog.Default()
			slog.SetDefault(slog.New(slog.DiscardHandler))
			t.Cleanup(func() { slog.SetDefault(restore) })
		}
		for at, where := range map[int32]string{1: "first try", 2: "second try", 3: "check", 0: "OnComplete"} {
			t.Run(misdeed+" after a panic in "+where, func(t *testing.T) {
				p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { commit() }))
				var met atomic.Bool
				o := &op{}
				o.try = func() bool {
					if o.tries.Load() == at {
						panic("of the user's")
					}
					return met.Load()
				}
				if where == "OnComplete" {
					o.complete = func() { panic("of the user's") }
				}
				inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })()
				after := until(&met)
				submit(t, p, after, hour, "a")
				met.Store(true)
				inBackground(func() { p.CheckAndComplete("a") })()
				eventually(t, func() bool { return after.completed.Load() == 1 }, "a worker may try it at this moment")
				ended(t, after, operation.Satisfied) // although the one before it misbehaves
				inBackground(func() { p.CheckAndComplete("a") })()
				eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker may try it at this moment")
				ended(t, o, operation.Satisfied)
				empty(t, p)
			})
		}
	}
}

// Two operations of a check panic, and the handler ends the goroutine at the first: the second panic is reported, too.
func TestAHandlerThatEndsItsGoroutineKeepsNoOtherPanicUnreported(t *testing.T) {
	reported := make(chan any, 3)
	p := onManualClock[string](t, purgatory.WithPanicHandler(func(v any, _ []byte) {
		reported <- v
		runtime.Goexit()
	}))
	var met atomic.Bool
	for _, name := range []string{"first", "second"} {
		submit(t, p, &op{try: func() bool {
			if met.Load() {
				panic(name)
			}
			return false
		}}, hour, "a")
	}
	met.Store(true)
	inBackground(func() { p.CheckAndComplete("a") })()
	eventually(t, func() bool { return len(reported) == 2 }, "two reports")
	assert.Equal(t, []any{"first", "second"}, []any{<-reported, <-reported})
	met.Store(false)
}

func TestWorkersAndReaperSurvivePanicsAndGoexits(t *testing.T) {
	for misdeed, commit := range misdeeds {
		t.Run(misdeed, func(t *testing.T) {
			var told panics
			p := open[string](t, told.option(), purgatory.WithExpiryWorkers(1), purgatory.WithReapInterval(time.Millisecond))
			for range 50 {
				submit(t, p, &op{complete: commit, expire: commit}, time.Millisecond, "a")
				tries := &op{}
				tries.try = func() bool {
					if tries.tries.Load() > 2 {
						commit()
					}
					return false
				}
				// A signal may cause a third try during the registration.
				inBackground(func() { _, _ = p.TryCompleteElseWatch(tries, 3*time.Millisecond, "a") })()
				p.Signal("a")
			}
			eventually(t, func() bool { return p.Stats().Expired == 100 }, "everything expires")
			last := submitted(t, p, "b")
			last.try = nil
			p.CancelForKey("b", nil)
			ended(t, last, operation.Cancelled)
		})
	}
}

// group is a key that is compared by its address.
type group struct{ name string }

func TestLogRecordsDoNotDereferencePointerKeys(t *testing.T) {
	var log bytes.Buffer
	p := open[*group](t, purgatory.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), purgatory.WithPanicHandler(func(any, []byte) {}))
	key := &group{"another goroutine may be writing this"}
	o := &op{complete: func() { panic("of OnComplete's") }}
	submit(t, p, o, hour, key)
	p.ForceComplete(o)
	assert.Contains(t, log.String(), fmt.Sprintf("%p", key), "as Inspect shows it")
	assert.NotContains(t, log.String(), "another goroutine")
}

// A registration whose TryComplete panics each time, while each of its tries asks for another one, returns after two.
// Then workers try the operation.
func TestARegistrationThatPanicsAndIsAskedForMoreReturns(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	o := &op{}
	var tries atomic.Int64 // of the registration
	o.try = func() bool {
		if strings.Contains(string(debug.Stack()), "TestARegistrationThatPanicsAndIsAskedForMoreReturns(") {
			tries.Add(1)
		}
		inBackground(func() { p.CheckAndComplete("a") })()
		panic("of the try's")
	}
	submit(t, p, o, hour, "a")
	assert.EqualValues(t, 2, tries.Load())
	eventually(t, func() bool { return o.tries.Load() > 2 }, "a worker tries it")
	p.ForceComplete(o)
	endsSoon(t, o, operation.Forced)
}

// A registration whose second try panics says whether it has ended the operation, as one whose second try says no: but for
// one that has expired, whose callbacks run elsewhere.
func TestARegistrationThatPanicsSaysWhatItHasEnded(t *testing.T) {
	for outcome, end := range map[operation.Outcome]func(p *purgatory.DelayedOperationPurgatory[string], o *op){
		operation.Forced:    func(p *purgatory.DelayedOperationPurgatory[string], o *op) { p.ForceComplete(o) },
		operation.Cancelled: func(p *purgatory.DelayedOperationPurgatory[string], o *op) { p.Cancel(o, errGone) },
		operation.Expired:   func(p *purgatory.DelayedOperationPurgatory[string], _ *op) { p.AdvanceClock(hour) },
	} {
		t.Run(outcome.String(), func(t *testing.T) {
			var told panics
			p := onManualClock[string](t, told.option())
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() == 2 {
					end(p, o)
					panic("with a wish set")
				}
				return false
			}
			completed, err := p.TryCompleteElseWatch(o, hour, "a")
			require.NoError(t, err)
			assert.Equal(t, outcome != operation.Expired, completed)
			if completed {
				ended(t, o, outcome) // also its callback has run
			}
			endsSoon(t, o, outcome)
			assert.EqualValues(t, 1, told.n.Load())
		})
	}
}
