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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
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
	told.are(t, 1)
	pending(t, o)
}

// The handler is told of a panic of what the user has put into the purgatory's timer, too.
func TestAPanicOnThePurgatorysTimerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told panics
		p := open[string](t, told.option())
		_, err := p.OwnTimer().AfterFunc(time.Second, func() { panic("of the user's") })
		require.NoError(t, err)
		p.StartReaper()
		time.Sleep(time.Minute)
		told.are(t, 1)
		assert.EqualValues(t, 1, p.Stats().Panics)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A panic in the first try is reported though the registration is refused.
func TestAPanicBeforeARefusalIsReported(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option(), purgatory.WithMaxPending(1))
	submitted(t, p, "a")
	_, err := p.TryCompleteElseWatch(&op{try: func() bool { panic("of the test") }}, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrFull)
	told.are(t, 1)
}

type exitingKey int

func (exitingKey) String() string { runtime.Goexit(); return "" }

// After a panic in the first try, the String of a key that is full calls runtime.Goexit: the operation was refused.
func TestAGoexitInARefusalLeavesNothingHeld(t *testing.T) {
	p := onManualClock[exitingKey](t, purgatory.WithMaxPendingPerKey(1), new(panics).option())
	submit(t, p, &op{}, hour, 1)
	o := &op{try: func() bool { panic("of the test") }}
	inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, 1) })()
	assert.True(t, machine.Of(o).Ending(), "nobody holds it any more")
}

// are waits until n panics were reported.
func (c *panics) are(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool { return int(c.n.Load()) >= n }, "the reports")
	assert.EqualValues(t, n, c.n.Load())
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
						told.are(t, (ops+bad-1)/bad)
						assert.EqualValues(t, (ops+bad-1)/bad, p.Stats().Panics)
					}
					empty(t, p)
					assert.EqualValues(t, ops, conserved(t, p).Accepted)
				})
			}
		}
	}
}

// KAFKA-17234: a panic stopped the operations behind it. An operation whose first try ends its goroutine is refused: there is nobody to
// tell.
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
				var met atomic.Bool
				before, after := until(&met), until(&met)
				submit(t, p, before, hour, "a")
				inBackground(func() { _, _ = p.TryCompleteElseWatch(o, time.Second, "a", "b") })()
				submit(t, p, after, hour, "a")
				refused := misdeed == "Goexit" && at == 1
				assert.Equal(t, map[bool]int{false: 3, true: 2}[refused], p.NumDelayed())
				met.Store(true)
				n := -1
				inBackground(func() { n = p.CheckAndComplete("a") })()
				endsSoon(t, before, operation.Satisfied)
				endsSoon(t, after, operation.Satisfied)
				if misdeed == "panic" && at > 1 { // else a worker makes the try that the registration owes, and may end them
					assert.Equal(t, 2, n, "the others")
				}
				assert.GreaterOrEqual(t, o.tries.Load(), at)
				pending(t, o)
				p.AdvanceClock(time.Second)
				if refused {
					pending(t, o)
				} else {
					endsSoon(t, o, operation.Expired)
				}
				told.are(t, map[string]int{"panic": 1, "Goexit": 0}[misdeed])
				assert.EqualValues(t, told.n.Load(), p.Stats().Panics)
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

// A handler that panics, calls runtime.Goexit as t.Fatal does, or blocks holds up no operation, and keeps no other panic unreported.
func TestAFailingPanicHandlerStopsNothing(t *testing.T) {
	restore := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(restore) })
	for name, fail := range map[string]func(leave chan struct{}){
		"panics": func(chan struct{}) { panic("of the handler's") },
		"Goexit": func(chan struct{}) { runtime.Goexit() },
		"blocks": func(leave chan struct{}) { <-leave },
	} {
		for at, where := range map[int32]string{1: "first try", 2: "second try", 3: "check", 0: "OnComplete"} {
			t.Run(name+" after a panic in "+where, func(t *testing.T) {
				leave := make(chan struct{})
				var told atomic.Int32
				p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { told.Add(1); fail(leave) }))
				var met atomic.Bool
				bad := func() *op {
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
					return o
				}
				all := []*op{bad(), bad(), until(&met)}
				for _, o := range all {
					submit(t, p, o, hour, "a")
				}
				met.Store(true)
				for _, o := range all {
					eventually(t, func() bool { p.CheckAndComplete("a"); return o.completed.Load() == 1 }, "a worker may be trying it")
					ended(t, o, operation.Satisfied)
				}
				assert.EqualValues(t, 2, p.Stats().Panics)
				close(leave)
				eventually(t, func() bool { return told.Load() == 2 }, "both are reported")
				empty(t, p)
			})
		}
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
	require.NoError(t, p.Shutdown(t.Context())) // which waits for the log
	assert.Contains(t, log.String(), fmt.Sprintf("%p", key), "as Inspect shows it")
	assert.NotContains(t, log.String(), "another goroutine")
}

// A registration whose TryComplete panics each time, while each of its tries asks for another one, returns after the first.
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
	assert.EqualValues(t, 1, tries.Load())
	eventually(t, func() bool { return o.tries.Load() > 2 }, "a worker tries it")
	p.ForceComplete(o)
	endsSoon(t, o, operation.Forced)
}

// A registration whose second try panics says whether it has ended the operation, as one whose second try says no: but for
// one that has expired, whose callbacks run elsewhere.
func TestARegistrationThatPanicsSaysWhatItHasEnded(t *testing.T) {
	for outcome, end := range map[operation.Outcome]func(p *purgatory.Purgatory[string], o *op){
		operation.Forced:    func(p *purgatory.Purgatory[string], o *op) { p.ForceComplete(o) },
		operation.Cancelled: func(p *purgatory.Purgatory[string], o *op) { p.Cancel(o, errGone) },
		operation.Expired:   func(p *purgatory.Purgatory[string], _ *op) { p.AdvanceClock(hour) },
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
			told.are(t, 1)
		})
	}
}
