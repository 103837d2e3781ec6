package purgatory

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// Option configures a purgatory.
type Option func(*config)

type config struct {
	timer         timer.Timer
	timerOptions  []timer.Option
	watcherShards int
	purgeInterval int
	reapInterval  time.Duration
	reaper        bool
	workers       int
	executor      func(run func()) error
	maxPending    int
	panicked      guard.Handler
	handled       bool // panicked was given
	logger        *slog.Logger
	observe       watchers.Observe
	slow          time.Duration
}

// WithTick sets the resolution of timeouts. Default 1 ms. Not with WithTimer.
func WithTick(d time.Duration) Option {
	return func(c *config) { c.timerOptions = append(c.timerOptions, timer.WithTick(d)) }
}

// WithWheelSize sets the number of buckets of a timing wheel, any from 2; powers of
// two are faster. Default 64, see timer.WithWheelSize. Not with WithTimer.
func WithWheelSize(n int) Option {
	return func(c *config) { c.timerOptions = append(c.timerOptions, timer.WithWheelSize(n)) }
}

// WithTimerShards sets the number of timing wheels, a power of two from 1 to 64.
// Default: eight per processor, at most 64. Not with WithTimer.
func WithTimerShards(n int) Option {
	return func(c *config) { c.timerOptions = append(c.timerOptions, timer.WithShards(n)) }
}

// WithWatcherShards sets the number of parts of the map from keys to operations,
// each with a lock of its own: a power of two from 1 to 65,536. Default: 32 per
// processor, from 64 to 1024.
func WithWatcherShards(n int) Option { return func(c *config) { c.watcherShards = n } }

// WithPurgeInterval sets how many watches of ended operations may be left to the
// purge at any moment. (An operation leaves its lists when it ends, except where
// a list's shard is busy just then.) Default 1000; 0: none, wait for the shard.
func WithPurgeInterval(operations int) Option {
	return func(c *config) { c.purgeInterval = operations }
}

// WithReapInterval sets how long the reaper sleeps at most, and so how often it
// purges. Default 200 ms. Timeouts do not depend on it.
func WithReapInterval(d time.Duration) Option { return func(c *config) { c.reapInterval = d } }

// WithoutReaper starts no reaper: somebody else calls AdvanceClock in a loop.
func WithoutReaper() Option { return func(c *config) { c.reaper = false } }

// WithTimer uses t, which may be shared by several purgatories and with others; it
// is not stopped with the purgatory. With a *timer.ManualTimer there is no reaper:
// AdvanceClock moves the time. Default: one of its own.
func WithTimer(t timer.Timer) Option { return func(c *config) { c.timer = t } }

// WithExpiryWorkers sets how many goroutines may run the callbacks of expired
// operations at a time, and as many others the checks for Signal. They exist only
// while there is work. Default: GOMAXPROCS, at least 2.
func WithExpiryWorkers(n int) Option { return func(c *config) { c.workers = n } }

// WithExecutor runs what the workers would run on an executor of the user's:
// execute has to run the function it is given, off its own goroutine, or to return
// an error; what it refuses is offered again, at the latest at the next reap. At most
// twice the number of workers is submitted at a time.
//
// Whoever makes work for a worker calls execute, and if it refuses, the logger: Signal
// above all, and so both run under whatever locks Signal's caller holds. They must
// neither block nor take such locks. With WithTimer, execute is given the checks for
// Signal only: what expires runs where that timer runs it.
func WithExecutor(execute func(run func()) error) Option {
	return func(c *config) { c.executor = execute }
}

// WithMaxPending bounds the number of pending operations: one more is refused with
// ErrFull, at once. Default 0: no bound. A bound costs a counter that all
// goroutines share.
func WithMaxPending(n int) Option { return func(c *config) { c.maxPending = n } }

// WithPanicHandler sets what is told of a panic in an operation's method, or in the
// function of WithExecutor, with its stack. Default: it is logged, to WithLogger's
// logger, or to slog's default one if there is none. It may be called on any goroutine that calls the purgatory.
func WithPanicHandler(h func(recovered any, stack []byte)) Option {
	return func(c *config) { c.panicked, c.handled = h, true }
}

// WithLogger sets where the purgatory logs what happens to it: see the Event constants.
// Any goroutine that calls the purgatory may log, one in Signal too: see WithExecutor.
// Default: nowhere.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

const maxWatcherShards = 1 << 16

func newConfig(opts []Option) (config, error) {
	c := config{
		watcherShards: watchers.DefaultShards(),
		purgeInterval: 1000,
		reapInterval:  200 * time.Millisecond,
		reaper:        true,
		workers:       max(2, runtime.GOMAXPROCS(0)),
		logger:        slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o == nil {
			return c, fmt.Errorf("%w: a nil Option", ErrInvalidOption)
		}
		o(&c)
	}
	invalid := func(name string, value any, allowed string) error {
		return fmt.Errorf("%w: %s is %v, must be %s", ErrInvalidOption, name, value, allowed)
	}
	switch {
	case c.watcherShards < 1 || c.watcherShards > maxWatcherShards || c.watcherShards&(c.watcherShards-1) != 0:
		return c, invalid("number of watcher shards", c.watcherShards, fmt.Sprintf("a power of two from 1 to %d", maxWatcherShards))
	case c.purgeInterval < 0:
		return c, invalid("purge interval", c.purgeInterval, "at least 0")
	case c.reapInterval <= 0:
		return c, invalid("reap interval", c.reapInterval, "positive")
	case c.workers < 1:
		return c, invalid("number of expiry workers", c.workers, "at least 1")
	case c.maxPending < 0:
		return c, invalid("maximum of pending operations", c.maxPending, "at least 0 (no bound)")
	case c.handled && c.panicked == nil:
		return c, invalid("panic handler", "nil", "a function")
	case c.logger == nil:
		return c, invalid("logger", "nil", "a *slog.Logger")
	case c.timer == (*timer.SystemTimer)(nil), c.timer == (*timer.ManualTimer)(nil):
		return c, invalid("timer", "a nil "+fmt.Sprintf("%T", c.timer), "a timer, or nil for one of its own")
	case c.observe.Keys < 0:
		return c, invalid("number of keys to tell apart", c.observe.Keys, "at least 0 (none)")
	case c.slow < 0:
		return c, invalid("threshold of slow callbacks", c.slow, "at least 0 (off)")
	case c.timer != nil && len(c.timerOptions) > 0:
		return c, invalid("timer", "injected", "free of WithTick, WithWheelSize and WithTimerShards")
	}
	return c, nil
}
