package timer

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
)

// Errors, for errors.Is. What is returned names the offending value.
var (
	ErrInvalidOption = errors.New("timer: invalid option")
	ErrStopped       = errors.New("timer: stopped")
	ErrFull          = errors.New("timer: too many pending entries")
	ErrScheduled     = errors.New("timer: entry is scheduled already")
	ErrNoTask        = errors.New("timer: entry is bound to no task")
)

func fullError(limit int64) error { return fmt.Errorf("%w: the maximum is %d", ErrFull, limit) }

// Option configures a timer.
type Option func(*config)

type config struct {
	tick       time.Duration
	wheelSize  int
	shards     int
	workers    int
	executor   func(run func()) error
	maxPending int
	panicked   guard.Handler
	logger     *slog.Logger
}

// WithTick sets the resolution of the lowest wheel: how late an entry can be, by
// the timer's doing. Default 1 ms, at least 1 ns.
func WithTick(d time.Duration) Option { return func(c *config) { c.tick = d } }

// WithWheelSize sets the number of buckets in a wheel, from 2 to 1,048,576, which
// is honoured exactly; powers of two are faster. Default 64: a level's occupancy
// is one machine word, three levels reach 4 minutes at a tick of 1 ms, and an
// overflow bucket that has to be spread over the wheel below spans only 64 ms.
func WithWheelSize(n int) Option { return func(c *config) { c.wheelSize = n } }

// WithShards sets the number of wheels, each with a lock of its own: a power of
// two from 1 to 64. Default: eight per processor (GOMAXPROCS), at most 64; a
// ManualTimer has one.
func WithShards(n int) Option { return func(c *config) { c.shards = n } }

// WithWorkers sets how many goroutines may run expired tasks at a time. They
// start on demand and end when nothing is due. Default: GOMAXPROCS, at least 2,
// so that one blocked task does not hold up the others.
func WithWorkers(n int) Option { return func(c *config) { c.workers = n } }

// WithExecutor runs expired tasks on an executor of the user's instead of on
// goroutines: execute must run the function it is given once, off its own
// goroutine, or return an error. What it refuses stays due and is offered again
// 10 ms later. At most the number of workers is submitted at a time.
//
// Whoever makes something due calls execute, and the logger if it refuses: the
// goroutine that drives the timer, or one that adds an entry whose deadline has
// passed, or moves a deadline there. So both run under whatever locks these hold:
// they must neither block nor take such locks, nor call AdvanceClock.
func WithExecutor(execute func(run func()) error) Option {
	return func(c *config) { c.executor = execute }
}

// WithMaxPending bounds the number of pending entries; adding one more fails with
// ErrFull. Default 0: no bound. A bound costs a counter that all share.
func WithMaxPending(n int) Option { return func(c *config) { c.maxPending = n } }

// WithPanicHandler sets what is told of a task's panic, with its stack. Default:
// it is logged by slog's default logger.
func WithPanicHandler(h func(recovered any, stack []byte)) Option {
	return func(c *config) { c.panicked = h }
}

// WithLogger sets where warnings go: see the Event constants. It must not block where
// WithExecutor's execute must not. Default: nowhere.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

func newConfig(shards int, opts []Option) (config, error) {
	c := config{
		tick:      time.Millisecond,
		wheelSize: 64,
		shards:    shards,
		workers:   max(2, runtime.GOMAXPROCS(0)),
		panicked:  guard.Log,
		logger:    slog.New(slog.DiscardHandler),
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
	case c.tick < 1:
		return c, invalid("tick", c.tick, "at least 1ns")
	case c.wheelSize < 2 || c.wheelSize > maxWheelSize:
		return c, invalid("wheel size", c.wheelSize, fmt.Sprintf("from 2 to %d", maxWheelSize))
	case c.shards < 1 || c.shards > 64 || c.shards&(c.shards-1) != 0:
		return c, invalid("number of shards", c.shards, "a power of two from 1 to 64")
	case c.workers < 1:
		return c, invalid("number of workers", c.workers, "at least 1")
	case c.maxPending < 0:
		return c, invalid("maximum of pending entries", c.maxPending, "at least 0 (no bound)")
	case c.panicked == nil:
		return c, invalid("panic handler", "nil", "a function")
	case c.logger == nil:
		return c, invalid("logger", "nil", "a *slog.Logger")
	}
	return c, nil
}
