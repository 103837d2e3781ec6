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
	watcherShards    int
	purgeInterval    int
	reapInterval     time.Duration
	expiryWorkers    int
	signalWorkers    int
	maxPending       int
	maxPendingPerKey int
	drainTime        time.Duration
	panicHandler     guard.Handler
	logger           *slog.Logger
	keyStats         int
	slow             time.Duration
	hook             *testhook.Hook

	reaper          bool
	histograms      bool
	stuckStacks     bool
	firstInFirstOut bool
	spread          bool // WithCallbacksOnWorkers
	expiryNormal    bool // WithTimeoutsExpected

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

// WithTimerOptions sets further options of the purgatory's own timer, such as
// [timer.WithWheelSize] and [timer.WithShards]. The purgatory overrides the timer's
// workers, panic handler and logger with its own. New rejects it together with [WithTimer].
func WithTimerOptions(opts ...timer.Option) Option {
	return func(c *config) { c.timerOptions = append(c.timerOptions, opts...) }
}

// WithWatcherShards sets the number of shards of the map from keys to operations, each with
// a lock of its own: a power of two from 1 to 65,536. More shards mean less lock contention
// and more memory. Default: 32 per processor (GOMAXPROCS), from 64 to 4096.
func WithWatcherShards(n int) Option { return func(c *config) { c.watcherShards = n } }

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

// WithExpiryWorkers sets how many goroutines may run the callbacks of expired operations
// at a time. While callbacks block all of them, no other operation expires. They exist
// only while there is work. Default: 16 per processor (GOMAXPROCS), since callbacks write
// to sockets. It has no effect together with [WithTimer]: that timer has workers of its own,
// see [timer.WithWorkers].
func WithExpiryWorkers(n int) Option { return func(c *config) { c.expiryWorkers = n } }

// WithSignalWorkers sets how many goroutines at a time may check signalled keys, and run
// callbacks that other goroutines have handed to a worker. They exist only while there is
// work, and one of them for up to 10 ms longer. Shutdown may let more run when callbacks block them: see there.
// Default: 16 per processor (GOMAXPROCS).
func WithSignalWorkers(n int) Option { return func(c *config) { c.signalWorkers = n } }

// WithCallbacksOnWorkers has signal workers run the callbacks of all operations, but for those that Close
// ends: OnComplete never runs on the goroutine that registers, checks or cancels, and that of a crowd runs
// on all processors at once, in no order. It costs an operation about as much as a
// check. Use it if callbacks take longer than some microseconds and many operations end
// together, or if the callers hold locks that callbacks take. When a method returns that has ended an
// operation, its callbacks may not have run. Default: off.
//
// With one signal worker the callbacks run one at a time, in the order in which their operations have
// ended: who is met when it is registered may come before those that a signal is about to end, and those that
// goroutines end at the same time come in any order. One that
// blocks holds up all others, also in a Shutdown. The example
// makes of that a log whose callbacks come in order of position.
func WithCallbacksOnWorkers() Option { return func(c *config) { c.spread = true } }

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

// WithDrainTime sets for how long [DelayedOperationPurgatory.Shutdown] waits, after its context has ended,
// for callbacks that have not returned. Default 1 s.
func WithDrainTime(d time.Duration) Option { return func(c *config) { c.drainTime = d } }

// WithPanicHandler sets a function that is called when an operation's method has panicked, with
// the recovered value and the stack. Any goroutine that calls the purgatory may call it. Without a handler, panics are logged by
// slog's default logger unless the logger of [WithLogger] logs errors: see [EventPanic].
func WithPanicHandler(h func(recovered any, stack []byte)) Option {
	return func(c *config) {
		rule(c, h != nil, "panic handler", "nil", "a function")
		c.panicHandler = h
	}
}

// WithLogger sets a logger for the purgatory's events: see [EventSlow] and the constants
// beside it. Any goroutine that calls the purgatory may log, but Signal and its variants do not.
// A logger that blocks holds up who calls it, but not the clock: another goroutine
// logs what the reaper finds ([EventStalled], [EventPurged], [EventDue] and [EventStuck]), and
// drops what is found while it waits. By default nothing is logged but panics.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithFirstInFirstOut makes operations wait in line, for purgatories whose operations
// compete for items and are checked by
// [DelayedOperationPurgatory.CheckAndCompleteInOrder]: a queue of jobs, a semaphore. An
// operation that is submitted while others wait for one of its keys is not tried before them:
// it is watched, and then the operations of its keys are tried in order. So it overtakes nobody
// who has been waiting, and an item that comes meanwhile finds its taker. (One that has a key
// for itself, such as the name of its connection, is the first in line there, and is tried.) It
// costs an operation that has to wait one more try, of the first in line. (While the call that submits an operation has not
// returned, that one may be overtaken, though Waiting counts it already.) An operation or an
// Await that is submitted while others wait, with a timeout of zero or less, may end without a
// try, and an Await does not call its function before it is in line. Default: off; every operation
// is tried at once when it is submitted, whoever waits.
func WithFirstInFirstOut() Option { return func(c *config) { c.firstInFirstOut = true } }

// WithHistograms keeps the age of the oldest pending operation, and histograms of ages,
// waits and lateness: see [Stats]. It costs a few nanoseconds for each operation, one
// reading of the clock for each batch that ends together, and a few kilobytes for each
// watcher shard. Default: off.
func WithHistograms() Option { return func(c *config) { c.histograms = true } }

// WithKeyStats counts events for single keys, for [DelayedOperationPurgatory.Inspect]: for
// the n busiest keys, and for the n keys with the most expiries. 512 is a good n; it is
// rounded up so that each watcher shard has an equal part of at least 4. Its memory is
// bounded by n: when more keys are busy, the least busy are forgotten, and their counts
// begin at zero when they come back. A key that is counted is kept in memory. An operation on a key that is not
// counted yet looks through its shard's part: with 10,000 it takes twice as long, with 1,000,000 a hundred times. The
// maximum is 1,048,576. Default 0: off.
func WithKeyStats(n int) Option { return func(c *config) { c.keyStats = n } }

const (
	workersPerProcessor = 16
	noBound             = -1 // on pending operations
)

// configure sets c to the defaults, and then to what opts ask for.
func (c *config) configure(opts []Option) error {
	*c = config{
		watcherShards: watchers.DefaultShards(),
		purgeInterval: 1000,
		reapInterval:  200 * time.Millisecond, // see docs/decisions.md#the-reaper-wakes-five-times-a-second
		reaper:        true,
		maxPending:    noBound,
		expiryWorkers: workersPerProcessor * runtime.GOMAXPROCS(0),
		signalWorkers: workersPerProcessor * runtime.GOMAXPROCS(0),
		drainTime:     time.Second,
		logger:        discard,
	}
	for _, o := range opts {
		if o == nil {
			return errors.New("a nil Option")
		}
		o(c)
	}
	n := c.watcherShards
	rule(c, c.timer == nil || len(c.timerOptions) == 0, "timer", "injected", "free of WithTick and WithTimerOptions")
	rule(c, n >= 1 && n <= 1<<16 && n&(n-1) == 0, "number of watcher shards", n, "a power of two from 1 to 65,536")
	rule(c, c.purgeInterval >= 0, "purge interval", c.purgeInterval, "at least 0")
	rule(c, c.reapInterval > 0, "reap interval", c.reapInterval, "positive")
	rule(c, c.expiryWorkers >= 1, "number of expiry workers", c.expiryWorkers, "at least 1")
	rule(c, c.signalWorkers >= 1, "number of signal workers", c.signalWorkers, "at least 1")
	rule(c, c.drainTime >= 0, "drain time", c.drainTime, "at least 0")
	rule(c, c.logger != nil, "logger", c.logger, "a *slog.Logger")
	rule(c, c.keyStats >= 0 && c.keyStats <= 1<<20, "number of keys to tell apart", c.keyStats, "from 0 (none) to 1,048,576")
	rule(c, c.slow >= 0, "threshold of slow callbacks", c.slow, "at least 0 (off)")
	rule(c, c.slow > 0 || !c.stuckStacks, "threshold of slow callbacks", c.slow, "positive for WithStuckStacks")
	return c.err
}

var discard = slog.New(slog.DiscardHandler)
