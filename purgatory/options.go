package purgatory

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/testhook"
	"github.com/delayedop/purgatory/timer"
)

// Option configures a purgatory: see [New].
type Option func(*config)

type config struct {
	timer            timer.Timer
	timerOptions     []timer.Option
	watcherShards    int // 0 but in tests
	purgeInterval    int
	reapInterval     time.Duration
	workers          int
	maxPending       int
	maxPendingPerKey int
	panicHandler     guard.Handler
	logger           *slog.Logger // nil: nothing is logged but panics
	hook             *testhook.Hook

	reaper, placeKept, diagnostics, timeoutsExpected bool

	err error // the first rule that an option breaks
}

func rule[V any](c *config, ok bool, name string, value V, allowed string) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%s is %v, must be %s", name, value, allowed)
	}
}

// WithTick sets the resolution of timeouts, at least a microsecond. Default 1 ms. Not together with [WithTimer].
func WithTick(d time.Duration) Option {
	return func(c *config) {
		rule(c, d >= time.Microsecond, "tick", d, "at least 1µs; a number without a unit counts nanoseconds")
		c.timerOptions = append(c.timerOptions, timer.WithTick(d))
	}
}

// WithPurgeInterval bounds how many entries of ended operations may stand in the lists, default 1000. One may stay only
// where the list's lock was contended, until that is next taken or the next purge. With 0 the goroutine that ends the
// operation waits for the lock.
func WithPurgeInterval(operations int) Option {
	return func(c *config) { c.purgeInterval = operations }
}

// WithReapInterval sets how long the reaper sleeps at most, and so how often it purges. Default 200 ms. It wakes up for
// timeouts.
func WithReapInterval(d time.Duration) Option { return func(c *config) { c.reapInterval = d } }

// WithoutReaper starts no reaper. Then [Purgatory.AdvanceClock] in a loop, or [timer.SystemTimer.Start] for the timer
// of [WithTimer], makes operations expire. Only AdvanceClock purges then, and looks for what [EventStuck] and
// [EventLate] log.
func WithoutReaper() Option { return func(c *config) { c.reaper = false } }

// WithTimer uses t, a [timer.SystemTimer] or a [timer.ManualTimer], in place of a timer of the purgatory's own.
// Several purgatories may share t, and closing them does not stop it. With a ManualTimer there is no reaper:
// AdvanceClock moves the time. New rejects other types, also those that embed one of the two.
func WithTimer(t timer.Timer) Option {
	return func(c *config) {
		system, _ := t.(*timer.SystemTimer)
		manual, _ := t.(*timer.ManualTimer)
		rule(c, system != nil || manual != nil, "timer", reflect.TypeOf(t), "a *timer.SystemTimer or a *timer.ManualTimer that is not nil")
		c.timer = t
	}
}

// WithWorkers sets how many goroutines at a time may run the callbacks of expired operations, and how many may check
// signalled keys. While callbacks block all of them, no other operation expires, or no signal is served. Default: 16
// per processor (GOMAXPROCS), since callbacks write to sockets. The timer of [WithTimer] has its own: see
// [timer.WithWorkers].
func WithWorkers(n int) Option { return func(c *config) { c.workers = n } }

// WithMaxPending bounds the number of pending operations: registering one more returns [ErrFull] at once. With 0,
// whoever would have to wait is refused. Default: no bound. The bound is one word that all processors write,
// [WithMaxPendingPerKey] shares none.
func WithMaxPending(n int) Option {
	return func(c *config) {
		rule(c, n >= 0, "maximum of pending operations", n, "at least 0")
		c.maxPending = n
	}
}

// WithMaxPendingPerKey bounds how many operations wait for a key, at least 1: beyond that, [ErrFull]. Of an operation
// the first key alone is asked; each counts it. Default: no bound.
func WithMaxPendingPerKey(n int) Option {
	return func(c *config) {
		rule(c, n >= 1, "maximum of pending operations per key", n, "at least 1")
		c.maxPendingPerKey = n
	}
}

// WithPlaceKept has an operation keep its place of [WithMaxPending] until its callbacks have returned: for answers
// that are large, and written by OnComplete. Default: it gives the place back when it ends.
func WithPlaceKept() Option { return func(c *config) { c.placeKept = true } }

// WithPanicHandler sets a function that gets the value and the stack of each panic of user code, one after the other
// on a goroutine of its own; it may block, and while 256 wait for it, further ones are only counted. Without it, slog's
// default logger logs panics, unless that of [WithLogger] does: see [EventPanic]. It also logs panics of the latter, and
// of h.
func WithPanicHandler(h func(recovered any, stack []byte)) Option {
	return func(c *config) {
		rule(c, h != nil, "panic handler", "nil", "a function")
		c.panicHandler = h
	}
}

// WithLogger sets a logger for the purgatory's events: see [EventPanic] and the constants beside it. It is called on a
// goroutine of its own, and may block: 256 records wait, and further ones are counted. Default: nothing is logged but
// panics.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		rule(c, l != nil, "logger", l, "a *slog.Logger")
		c.logger = l
	}
}

// WithDiagnostics counts how long operations wait, by outcome: see [Stats].Waited. It costs a few nanoseconds for each
// operation, and a kilobyte for each watcher shard. Default: off.
func WithDiagnostics() Option { return func(c *config) { c.diagnostics = true } }

// WithTimeoutsExpected says that it is normal that operations expire, as sessions and long polls do: nobody is warned
// of them. Default: off.
func WithTimeoutsExpected() Option { return func(c *config) { c.timeoutsExpected = true } }

const noBound = -1 // on pending operations

func (c *config) configure(opts []Option) error {
	*c = config{
		purgeInterval: 1000,
		reapInterval:  200 * time.Millisecond,
		workers:       16 * runtime.GOMAXPROCS(0),
		maxPending:    noBound,
		reaper:        true,
	}
	for _, o := range opts {
		if o == nil {
			return errors.New("a nil Option")
		}
		o(c)
	}
	rule(c, c.timer == nil || len(c.timerOptions) == 0, "timer", "injected", "free of WithTick")
	rule(c, c.purgeInterval >= 0, "purge interval", c.purgeInterval, "at least 0")
	rule(c, c.reapInterval > 0, "reap interval", c.reapInterval, "positive")
	rule(c, c.workers >= 1, "number of workers", c.workers, "at least 1")
	rule(c, c.maxPending != noBound || !c.placeKept, "maximum of pending operations", "none", "set for WithPlaceKept")
	return c.err
}
