package programs

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// clockKind says whose time a program has. It is always the explorer's: it stands still unless
// a step of the program lets it pass.
type clockKind uint8

const (
	manual clockKind = iota // a manual clock, without a reaper
	own                     // the purgatory's own timer, which its reaper drives
	shared                  // a system timer that has a driver of its own beside the reaper
)

// clock is the part of a timer that a world needs.
type clock interface {
	Now() time.Duration
	Pending() int
}

// never is longer than a program takes: a sweep at such intervals rescues nothing.
const never = 1000 * time.Hour

// options returns the options of the purgatory, and sets the clock unless it is the
// purgatory's own.
func (w *world) options() []purgatory.Option {
	options := []purgatory.Option{
		set("watcherShards", w.shards),
		purgatory.WithWorkers(w.workers),
		purgatory.WithPurgeInterval(w.purge),
		purgatory.WithReapInterval(never),
		purgatory.WithPanicHandler(w.panicked),
	}
	if w.observed {
		options = append(options, purgatory.WithDiagnostics(), purgatory.WithLogger(slog.New(logger{w})))
	}
	if w.kept && w.maxPending > 0 && !w.timerFull { // else there is nothing to keep
		options = append(options, purgatory.WithPlaceKept())
	}
	if w.none {
		options = append(options, purgatory.WithMaxPending(0))
	}
	if w.perKey > 0 {
		options = append(options, purgatory.WithMaxPendingPerKey(w.perKey))
	}
	if w.alone {
		options = append(options, purgatory.WithoutReaper())
	}
	wheels := []timer.Option{timer.WithWheelSize(4), timer.WithShards(w.wheels), timer.WithPanicHandler(w.panicked), timer.WithStallGrace(time.Duration(w.grace) * tick)}
	if w.timerFull {
		wheels = append(wheels, timer.WithMaxPending(w.maxPending))
	} else if w.maxPending > 0 {
		options = append(options, purgatory.WithMaxPending(w.maxPending))
	}
	var of timer.Timer
	var err error
	switch w.program.clock {
	case own:
		return append(options, set("timerOptions", wheels))
	case shared:
		wheels = append(wheels, timer.WithWorkers(w.workers))
		w.system, err = timer.NewSystemTimer(wheels...)
		of, w.clock = w.system, w.system
	default:
		var m *timer.ManualTimer
		m, err = timer.NewManualTimer(wheels...)
		of, w.clock, w.manual = m, m, m
	}
	if err != nil {
		panic(err)
	}
	return append(options, purgatory.WithTimer(of))
}

// set returns an option that sets a field of the configuration that is constant for users. The field has this very type, so
// the conversion of the pointer is safe.
func set[T any](field string, value T) purgatory.Option {
	return reflect.MakeFunc(reflect.TypeFor[purgatory.Option](), func(config []reflect.Value) []reflect.Value {
		*(*T)(config[0].Elem().FieldByName(field).Addr().UnsafePointer()) = value
		return nil
	}).Interface().(purgatory.Option)
}

// ownClock is called when the purgatory has been made. The field has this very type, so the
// conversion of the pointer is safe.
func (w *world) ownClock() {
	switch w.program.clock {
	case own:
		w.clock = (*timer.SystemTimer)(reflect.ValueOf(w.p).Elem().FieldByName("ownTimer").UnsafePointer())
	case shared:
		w.system.Start()
	}
}

// advance lets time pass.
func (w *world) advance(d time.Duration) {
	if w.manual != nil {
		w.manual.AdvanceClock(d)
	} else {
		w.pass(d)
	}
}

// late is how late, on a system timer, an operation may expire. Where a stall has a grace, each step that lets time pass may
// be a stall.
func (w *world) late() time.Duration {
	switch {
	case w.manual != nil:
		return 0
	case w.grace > 0:
		return longest
	}
	return tick
}

// advanceAll lets all timeouts pass, and the grace that follows a stall.
func (w *world) advanceAll() {
	w.advance(longest)
	w.settle()
	if w.grace > 0 {
		w.advance(time.Duration(w.grace) * tick)
		w.settle()
	}
}
