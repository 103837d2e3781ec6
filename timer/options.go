package timer

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/observe"
)

// Option configures a timer.
type Option func(*config)

type config struct {
	tick       int64 // in ns
	maxPending int64
	wheelSize  int64
	shardCount int
	workers    int
	grace      time.Duration
	panicked   guard.Handler
	handled    bool // by a function of the user's
	logger     *slog.Logger
}

// WithTick sets the length of a tick, the resolution of the lowest wheel. Default 1 ms, at least 1 ns.
func WithTick(d time.Duration) Option { return func(c *config) { c.tick = int64(d) } }

// WithWheelSize sets the number of buckets in each wheel, from 2 to 1,048,576. Powers of two are faster.
// Default 64: three wheels reach more than 4 minutes at a tick of 1 ms.
func WithWheelSize(n int) Option { return func(c *config) { c.wheelSize = int64(n) } }

// WithShards sets the number of shards: wheels, each with its own lock and memory. n is a power of two from 1
// to 256; more reduce lock contention. Default for a [SystemTimer]: eight for each processor (GOMAXPROCS); for
// a [ManualTimer]: 1.
func WithShards(n int) Option { return func(c *config) { c.shardCount = n } }

// WithWorkers sets how many goroutines may run expired tasks at a time; while that many block, no other task
// runs. Default: 16 for each processor (GOMAXPROCS).
func WithWorkers(n int) Option { return func(c *config) { c.workers = n } }

// WithMaxPending limits the number of pending entries: beyond it, adding one fails with [ErrFull], but for the
// next run of a periodic handle. It costs one counter that every goroutine writes. Default 0: no limit.
func WithMaxPending(n int) Option { return func(c *config) { c.maxPending = int64(n) } }

// WithStallGrace is for a program that was stopped for a while, and then finds heartbeats in its sockets beside
// timeouts that have passed. If a [SystemTimer] finds that it is later than d, it waits for d before it expires
// anything that was not due when it was added: what is extended or cancelled meanwhile does not expire. Choose
// d longer than the program's usual pauses, or nothing expires, and shorter than the shortest session timeout.
// Beside the garbage collector, expiries are some 20 ms later. Default 0: nothing waits.
func WithStallGrace(d time.Duration) Option { return func(c *config) { c.grace = d } }

// WithPanicHandler sets the function that gets each panic of a task, with its stack, on the goroutine that
// panicked. Default: [slog.Default] logs the panic. A goroutine that exists while there are panics calls it, so it holds up no task:
// 256 panics wait, and further ones are counted.
func WithPanicHandler(h func(recovered any, stack []byte)) Option {
	return func(c *config) { c.panicked, c.handled = h, true }
}

// WithLogger sets the logger for the warning [EventManyTimers]. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

var discard = slog.New(slog.DiscardHandler)

// logPanics returns the default panic handler.
func logPanics() guard.Handler {
	waiting := new(observe.Queue)
	return func(recovered any, stack []byte) {
		waiting.Add(func() {
			guard.Log(recovered, stack)
			if n := waiting.Dropped(); n > 0 {
				slog.Error("purgatory: panics that were not logged", "panics", n)
			}
		})
	}
}

func (c *config) configure(shards int, opts []Option) error {
	*c = config{
		tick:       int64(time.Millisecond),
		wheelSize:  64, // see docs/internals/decisions.md#64-buckets
		shardCount: shards,
		workers:    16 * runtime.GOMAXPROCS(0),
		logger:     discard,
	}
	for _, o := range opts {
		if o == nil {
			return fmt.Errorf("%w: a nil Option", ErrInvalidOption)
		}
		o(c)
	}
	if !c.handled {
		c.panicked = logPanics()
	}
	for _, rule := range []struct {
		ok      bool
		name    string
		value   any
		allowed string
	}{
		{c.tick >= 1, "tick", time.Duration(c.tick), "at least 1ns"},
		{2 <= c.wheelSize && c.wheelSize <= maxWheelSize, "wheel size", c.wheelSize, fmt.Sprintf("from 2 to %d", maxWheelSize)},
		{0 < c.shardCount && c.shardCount <= maxShards && c.shardCount&(c.shardCount-1) == 0, "number of shards", c.shardCount, "a power of two from 1 to 256"},
		{c.workers >= 1, "number of workers", c.workers, "at least 1"},
		{c.maxPending >= 0, "maximum of pending entries", c.maxPending, "at least 0 (no bound)"},
		{c.grace >= 0, "grace after a stall", c.grace, "at least 0 (none)"},
		{c.panicked != nil, "panic handler", "nil", "a function"},
		{c.logger != nil, "logger", "nil", "a *slog.Logger"},
	} {
		if !rule.ok {
			return fmt.Errorf("%w: %s is %v, must be %s", ErrInvalidOption, rule.name, rule.value, rule.allowed)
		}
	}
	return nil
}
