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
	"github.com/delayedop/purgatory/watchers"
)

// Option configures a purgatory: see [New].
type Option func(*config)

type config struct {
	timer            timer.Timer
	timerOptions     []timer.Option
	watcherShards    int // constant but in tests
	purgeInterval    int
	reapInterval     time.Duration
	workers          int
	maxPending       int
	maxPendingPerKey int
	panicHandler     guard.Handler
	logger           *slog.Logger // nil: nothing is logged but panics
	hook             *testhook.Hook

	reaper           bool
	placeKept        bool
	diagnostics      bool
	timeoutsExpected bool

	err error // the first rule that an option breaks
}

// rule notes the error of an option whose value is not allowed, unless ok.
func rule[V any](c *config, ok bool, name string, value V, allowed string) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%s is %v, must be %s", name, value, allowed)
	}
}

// WithTick sets the resolution of timeouts, at least a microsecond. Default 1 ms. New rejects it
// together with [WithTimer].
func WithTick(d time.Duration) Option {
	return func(c *config) {
		rule(c, d >= time.Microsecond, "tick", d, "at least 1µs; a number without a unit counts nanoseconds")
		c.timerOptions = append(c.timerOptions, timer.WithTick(d))
	}
}

// WithPurgeInterval bounds how many entries of ended operations may stand in the lists at
// any moment. An operation that ends leaves its lists at once. Only where the lock of a list
// is contended does its entry stay: the goroutine that holds the lock takes it out when it
// releases it, or the next purge does. Default 1000. With 0 no entry stays: the goroutine
// that ends the operation waits for the lock.
func WithPurgeInterval(operations int) Option {
	return func(c *config) { c.purgeInterval = operations }
}

// WithReapInterval sets how long the reaper sleeps at most, and so how often it purges.
// Default 200 ms. Timeouts do not depend on it: the reaper wakes up for them.
func WithReapInterval(d time.Duration) Option { return func(c *config) { c.reapInterval = d } }

// WithoutReaper starts no reaper: you call [DelayedOperationPurgatory.AdvanceClock] in a
// loop, or [timer.SystemTimer.Start] drives the timer of [WithTimer], or nothing ever expires
// but what is submitted without time left: see [NoTimeout]. While the purgatory is open, only AdvanceClock then purges, and logs
// [EventStuck] and [EventDue].
func WithoutReaper() Option { return func(c *config) { c.reaper = false } }

// WithTimer uses t, a [timer.SystemTimer] or a [timer.ManualTimer], in place of a timer of the
// purgatory's own. Several purgatories may share t, and you may add tasks of your own to it.
// Closing the purgatory does not stop t. With a ManualTimer there is no reaper: AdvanceClock
// moves the time. New rejects other types of t, also those that embed one of the two.
func WithTimer(t timer.Timer) Option {
	return func(c *config) {
		system, _ := t.(*timer.SystemTimer)
		manual, _ := t.(*timer.ManualTimer)
		rule(c, system != nil || manual != nil, "timer", reflect.TypeOf(t), "a *timer.SystemTimer or a *timer.ManualTimer that is not nil")
		c.timer = t
	}
}

// WithWorkers sets how many goroutines at a time may run the callbacks of expired operations, and how many may check signalled keys and
// run callbacks that were handed to them. While callbacks block all of them, no other operation expires, and no signal is served. They exist
// only while there is work, and one of the second kind for up to 10 ms longer. Shutdown may let more run when callbacks block them. Default: 16
// per processor (GOMAXPROCS), since callbacks write to sockets. The timer of [WithTimer] has workers of its own for expiries: see
// [timer.WithWorkers].
func WithWorkers(n int) Option { return func(c *config) { c.workers = n } }

// WithMaxPending bounds the number of pending operations. Registering one more returns
// [ErrFull] at once. With 0, whoever would have to wait is refused. n is at least 0. Default: no bound. An
// operation gives its place back when it ends. One whose timeout has
// passed ends when an expiry worker is free, or when a check in order comes to it: while callbacks block all
// those workers, it keeps its place.
//
// A bound costs an operation two writes to one word that all processors share: a tenth of its life if two
// processors do nothing else. [WithMaxPendingPerKey] shares none.
func WithMaxPending(n int) Option {
	return func(c *config) {
		rule(c, n >= 0, "maximum of pending operations", n, "at least 0")
		c.maxPending = n
	}
}

// WithMaxPendingPerKey bounds how many operations wait for a key, so that one busy key does not shut out
// the others. An operation is refused, with [ErrFull], if n wait for its first key. It is exact for that
// key, and costs no word that all goroutines share. An operation on several keys counts for each of them,
// and is refused for its first one only; so name the key first that is to be bounded. An operation whose
// condition is met at once does not wait, and is not refused. With WithMaxPending, too, one that is refused for
// its key may hold one of those places until then. Default: no bound. n is at least 1.
func WithMaxPendingPerKey(n int) Option {
	return func(c *config) {
		rule(c, n >= 1, "maximum of pending operations per key", n, "at least 1")
		c.maxPendingPerKey = n
	}
}

// WithPlaceKept has an operation keep its place of [WithMaxPending] until its callbacks have returned: for answers that are large, and
// written by OnComplete. Default: it gives the place back when it ends.
func WithPlaceKept() Option { return func(c *config) { c.placeKept = true } }

// WithPanicHandler sets a function that is called when user code has panicked, with
// the recovered value and the stack. A goroutine of its own calls it, one panic after the other, and it may block. Without a handler,
// panics are logged by slog's default logger unless the logger of [WithLogger] logs errors: see [EventPanic].
func WithPanicHandler(h func(recovered any, stack []byte)) Option {
	return func(c *config) {
		rule(c, h != nil, "panic handler", "nil", "a function")
		c.panicHandler = h
	}
}

// WithLogger sets a logger for the purgatory's events: see [EventPanic] and the constants
// beside it. A goroutine that exists while there are records calls it. So a logger that blocks holds up nobody: a
// bounded number of records waits, and the others are counted. By default nothing is logged but panics.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		rule(c, l != nil, "logger", l, "a *slog.Logger")
		c.logger = l
	}
}

// WithDiagnostics counts how long operations wait, by outcome: see [Stats].Waited. It costs a few nanoseconds for each operation, one
// reading of the clock for each group that ends together, and a kilobyte for each watcher shard. Default: off.
func WithDiagnostics() Option { return func(c *config) { c.diagnostics = true } }

// WithTimeoutsExpected says that it is normal that operations expire: sessions, long polls, idle subscribers. Nobody is warned of
// them then. Default: off.
func WithTimeoutsExpected() Option { return func(c *config) { c.timeoutsExpected = true } }

const (
	workersPerProcessor = 16
	noBound             = -1 // on pending operations
)

// configure makes c the configuration that opts describe.
func (c *config) configure(opts []Option) error {
	*c = config{
		watcherShards: watchers.DefaultShards(),
		purgeInterval: 1000,
		reapInterval:  200 * time.Millisecond,
		workers:       workersPerProcessor * runtime.GOMAXPROCS(0),
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
