//go:build interleave

package purgatory

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/timer"
)

// drained is an operation that waits while a drain looks.
type drained struct {
	operation.DelayedOperation
	met, answered bool
}

func (o *drained) TryComplete() bool { return o.met }
func (o *drained) OnComplete()       { o.answered = true }
func (o *drained) OnExpiration()     {}

// answers are how o, which waits for 1, may be answered.
var answers = map[string]func(p *Purgatory[int], o *drained){
	"check":             func(p *Purgatory[int], o *drained) { o.met = true; p.CheckAndComplete(1) },
	"signal":            func(p *Purgatory[int], o *drained) { o.met = true; p.Signal(1) },
	"cancel":            func(p *Purgatory[int], _ *drained) { p.CancelForKey(1, nil) },
	"expire":            func(p *Purgatory[int], _ *drained) { p.AdvanceClock(time.Hour) },
	"close":             func(p *Purgatory[int], _ *drained) { p.endAll(false) },
	"close, by workers": func(p *Purgatory[int], _ *drained) { p.endAll(true) },
	"force, by a worker": func(p *Purgatory[int], o *drained) {
		if m := machine.Of(o); p.claim(m, machine.Forced, nil) {
			p.endOne(m, nil, true)
		}
	},
}

// When a purgatory is idle, which is the last that a drain looks at, the operation was answered, and no worker runs, in whatever way it was
// answered beside that look.
func TestAnIdlePurgatoryHasAnsweredAndRunsNothingEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	for name, answer := range answers {
		setup := func(spawn func(string, func())) func() error {
			clock, err := timer.NewManualTimer()
			if err != nil {
				return func() error { return err }
			}
			p := Must(New[int]("drained", WithTimer(clock), WithWorkers(1)))
			o := new(drained)
			if _, err := p.TryCompleteElseWatch(o, time.Hour, 1); err != nil {
				return func() error { return err }
			}
			spawn(name, func() { answer(p, o) })
			spawn("drain", func() {
				if !p.idle() {
					return
				}
				running := reflect.ValueOf(p).Elem().FieldByName("crew").FieldByName("pool").FieldByName("running").Field(0).Int() // a Load lets others go on before
				if handed := len(p.crew.handed.ops); !o.answered || running > 0 || handed > 0 {
					err = fmt.Errorf("idle: answered %v, %d workers run, %d callbacks are queued", o.answered, running, handed)
				}
			})
			return func() error { return err }
		}
		r := explore.Exploration{Setup: setup, Preemptions: 2}.Explore()
		if r.Failure != nil {
			t.Errorf("%s: %v, after %d schedules; replay %s", name, r.Failure, r.Schedules, r.Schedule)
		}
		t.Logf("%s: %d schedules", name, r.Schedules)
	}
}

// An operation whose key is full is refused, and has no callback, also if its timeout passes while it is being registered.
func TestARefusalBesideItsTimeoutEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		clock, err := timer.NewManualTimer()
		p := Must(New[int]("full", WithTimer(clock), WithMaxPendingPerKey(1)))
		var first, o drained
		if _, err = p.TryCompleteElseWatch(&first, NoTimeout, 1); err != nil {
			return func() error { return err }
		}
		spawn("register", func() { _, err = p.TryCompleteElseWatch(&o, 0, 1) })
		spawn("time", func() { p.AdvanceClock(time.Millisecond) })
		return func() error {
			if o.answered || o.Outcome() != operation.Pending || clock.Pending() != 0 || !errors.Is(err, ErrFull) {
				return fmt.Errorf("%w; answered %v, %v", err, o.answered, o.Outcome())
			}
			return nil
		}
	}
	if r := (explore.Exploration{Setup: setup, Preemptions: 2}).Check(t); r.Schedules < 2 {
		t.Error("nothing was explored")
	}
}

// Operations that were accepted before the purgatory closed arrive while Close ends those of their key, ahead of one that
// waits for a position.
func TestCloseEndsWhoStandsBehindThoseThatArriveEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		clock, err := timer.NewManualTimer()
		p := Must(New[int]("closing", WithTimer(clock)))
		var last drained
		_, failed := p.TryCompleteElseWatchAt(&last, NoTimeout, KeyPosition[int]{Key: 1, Position: 5})
		spawn("close", func() { p.endAll(false) })
		spawn("crowd", func() {
			for range 33 {
				_, failed = p.TryCompleteElseWatch(new(drained), NoTimeout, 1)
			}
		})
		return func() error {
			if err = errors.Join(err, failed); err == nil && !last.answered {
				err = errors.New("it was there before, and is pending")
			}
			return err
		}
	}
	explore.Exploration{Setup: setup, Preemptions: 1}.Check(t)
}
