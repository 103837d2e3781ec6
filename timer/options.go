package timer

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/identity"
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
	logger     *slog.Logger // may be nil
	err        error        // the first rule that is broken
}

// WithTick sets the length of a tick, the resolution of the lowest wheel. Default 1 ms, at least 1 ns.
func WithTick(d time.Duration) Option { return func(c *config) { c.tick = int64(d) } }

// WithWheelSize sets the number of buckets in each wheel, from 2 to 1,048,576. Powers of two are faster.
// Default 64.
func WithWheelSize(n int) Option { return func(c *config) { c.wheelSize = int64(n) } }

// WithShards sets the number of wheels with a lock of their own, a power of two from 1 to 256. Default for a
// [SystemTimer]: eight for each processor (GOMAXPROCS); for a [ManualTimer]: 1.
func WithShards(n int) Option { return func(c *config) { c.shardCount = n } }

// WithWorkers sets how many goroutines may run expired tasks at a time; while that many block, no other task
// runs. Default: 16 for each processor (GOMAXPROCS).
func WithWorkers(n int) Option { return func(c *config) { c.workers = n } }

// WithMaxPending limits the number of pending entries: beyond it, adding one fails with [ErrFull], but for the next
// run of a periodic handle, and for an operation whose first timeout is that of an Extend. It is a counter that every
// goroutine writes. Default 0: no limit.
func WithMaxPending(n int) Option { return func(c *config) { c.maxPending = int64(n) } }

// WithStallGrace is for a program that was stopped for a while, and then finds heartbeats in its sockets beside
// timeouts that have passed. A [SystemTimer] that is later than d waits for d before it expires anything that was
// not due when it was added: what is extended or cancelled meanwhile does not expire. Choose d longer than the usual
// pauses, or nothing expires, and shorter than the shortest session timeout. Beside the garbage collector, expiries are some 20 ms
// later. Default 0: nothing waits.
func WithStallGrace(d time.Duration) Option { return func(c *config) { c.grace = d } }

// WithPanicHandler sets the function that gets each panic of a task, with its stack, on the goroutine that
// panicked. Default: [slog.Default] logs up to ten panics a second, and how many more there were, and holds up no task.
func WithPanicHandler(h func(recovered any, stack []byte)) Option {
	return func(c *config) {
		c.rule(h != nil, "panic handler", "nil", "a function")
		c.panicked = h
	}
}

// WithLogger sets the logger for one warning in a process, purgatory.timers.many: more than 64 SystemTimers are driven
// and not stopped. Attributes: timers (their number) and hint. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		c.rule(l != nil, "logger", "nil", "a *slog.Logger")
		c.logger = l
	}
}

// rule notes that an option breaks a rule unless ok.
func (c *config) rule(ok bool, name string, value any, allowed string) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%w: %s is %v, must be %s", ErrInvalid, name, value, allowed)
	}
}

// init applies the options. With an error, t is of no use.
func (t *store) init(shards int, opts []Option, c clock) error {
	t.config = config{
		tick:       int64(time.Millisecond),
		wheelSize:  64, // see docs/internals/decisions.md#64-buckets
		shardCount: shards,
		workers:    16 * runtime.GOMAXPROCS(0),
	}
	for _, o := range opts {
		if o == nil {
			return fmt.Errorf("%w: a nil Option", ErrInvalid)
		}
		o(&t.config)
	}
	t.rule(t.tick >= 1, "tick", time.Duration(t.tick), "at least 1ns")
	t.rule(2 <= t.wheelSize && t.wheelSize <= maxWheelSize, "wheel size", t.wheelSize, fmt.Sprintf("from 2 to %d", maxWheelSize))
	t.rule(0 < t.shardCount && t.shardCount <= maxShards && t.shardCount&(t.shardCount-1) == 0, "number of shards", t.shardCount, "a power of two from 1 to 256")
	t.rule(t.workers >= 1, "number of workers", t.workers, "at least 1")
	t.rule(t.maxPending >= 0, "maximum of pending entries", t.maxPending, "at least 0 (no bound)")
	t.rule(t.grace >= 0, "grace after a stall", t.grace, "at least 0 (none)")
	if t.panicked == nil {
		t.panicked = (&observe.Records{Purgatory: "timer"}).Panicked
	}
	if t.err != nil {
		return t.err
	}
	t.id = identity.New()
	t.clock = c
	t.shards = make([]atomic.Pointer[shard], t.shardCount)
	t.wake.Store(1)
	t.overdue.Store(never)
	return nil
}
