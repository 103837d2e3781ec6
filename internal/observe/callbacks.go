package observe

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// The records of callbacks.
const (
	EventSlow  = "purgatory.callback.slow"
	EventStuck = "purgatory.callback.stuck"
)

// Callbacks times callbacks, and knows those that run now. It is safe for concurrent use.
type Callbacks[K comparable] struct {
	records   *Records
	threshold time.Duration
	stacks    bool // of callbacks that are stuck
	// One goroutine at a time looks for those, and uses these:
	rest time.Time    // until when no stacks are taken
	size int          // of the last ones
	slow atomic.Int64 // callbacks that took longer than the threshold

	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		running map[*machine.Machine]callback[K] // an operation runs one at a time
	}
}

// callback is a call of an operation's method.
type callback[K comparable] struct {
	key    K // the operation's first
	name   string
	began  time.Time
	logged bool
}

// NewCallbacks returns nil if threshold is 0: nothing is timed then.
func NewCallbacks[K comparable](r *Records, threshold time.Duration, stacks bool) *Callbacks[K] {
	if threshold == 0 {
		return nil
	}
	c := &Callbacks[K]{records: r, threshold: threshold, stacks: stacks}
	c.mu.running = make(map[*machine.Machine]callback[K])
	return c
}

// Run runs a callback: f, the method of m with this name.
func (c *Callbacks[K]) Run(m *machine.Machine, name string, key K, f func()) {
	c.mu.Lock()
	c.mu.running[m] = callback[K]{key: key, name: name, began: time.Now()}
	c.mu.Unlock()
	defer c.end(m) // a callback that panics may be slow, too
	running(m, f)
}

// running calls f, a method of m's operation. The runtime writes m into a stack, as the argument
// of this function, and so [stackOf] finds the goroutine: to ask for its name at each callback would cost
// some microseconds. m is used after the call so that the compiler keeps it where the runtime looks.
//
//go:noinline
func running(m *machine.Machine, f func()) {
	f()
	runtime.KeepAlive(m)
}

func (c *Callbacks[K]) end(m *machine.Machine) {
	c.mu.Lock()
	b := c.mu.running[m]
	delete(c.mu.running, m)
	c.mu.Unlock()
	if elapsed := time.Since(b.began); elapsed > c.threshold {
		c.slow.Add(1)
		name := Name(m, c.records.Blame(m, Kind(m.Operation()), "String", b.key))
		c.records.Log(slog.LevelWarn, EventSlow, "operation", name, "callback", b.name,
			"elapsed", elapsed, "age", c.records.AgeOf(m), "outcome", operation.Outcome(m.Outcome()).String(), "key", Key(b.key))
	}
}

// Now returns how many callbacks have been running for longer than the threshold, how long the oldest
// has, and how many took longer and have returned.
func (c *Callbacks[K]) Now() (stuck int64, oldest time.Duration, slow int64) {
	if c == nil {
		return 0, 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.mu.running {
		elapsed := time.Since(b.began)
		oldest = max(oldest, elapsed)
		if elapsed > c.threshold {
			stuck++
		}
	}
	return stuck, oldest, c.slow.Load()
}

// TakeStuck returns what logs the callbacks that have been running for longer than the threshold and
// were not logged, as many as may be logged now; nil if there are none.
func (c *Callbacks[K]) TakeStuck() (report func()) {
	if c == nil || time.Now().Before(c.rest) {
		return nil
	}
	left := c.records.left(EventStuck)
	stuck := make(map[*machine.Machine]callback[K]) // copies: a callback may return at any time
	c.mu.Lock()
	defer c.mu.Unlock()
	for m, b := range c.mu.running {
		if !b.logged && time.Since(b.began) > c.threshold && len(stuck) < left {
			b.logged = true
			c.mu.running[m], stuck[m] = b, b
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	return func() { c.report(stuck) }
}

// report logs stuck callbacks. It does not call the String method of an operation, whose
// callback runs.
func (c *Callbacks[K]) report(stuck map[*machine.Machine]callback[K]) {
	all := sync.OnceValue(c.allStacks)
	for m, b := range stuck {
		args := []any{
			"operation", Kind(m.Operation()), "callback", b.name,
			"elapsed", time.Since(b.began), "age", c.records.AgeOf(m), "key", Key(b.key),
		}
		if c.stacks {
			args = append(args, "stack", stackOf(m, all()))
		}
		c.records.Log(slog.LevelWarn, EventStuck, args...)
	}
}

const maxStacks = 16 << 20 // bytes of all goroutines' stacks

// allStacks returns the stacks of all goroutines, or their first maxStacks bytes. The runtime stops all goroutines for
// that: so it takes a twentieth of the time at most.
func (c *Callbacks[K]) allStacks() []byte {
	began := time.Now()
	defer func() { c.rest = time.Now().Add(19 * time.Since(began)) }()
	for c.size = max(c.size, 1<<20); ; c.size *= 2 {
		buf := make([]byte, c.size)
		if n := runtime.Stack(buf, true); n < c.size || c.size == maxStacks {
			return buf[:n]
		}
	}
}

// stackOf returns the stack of the goroutine that runs a callback of m, "" if it is not among stacks.
func stackOf(m *machine.Machine, stacks []byte) string {
	i := bytes.Index(stacks, fmt.Appendf(nil, "observe.running(%p,", m))
	if i < 0 {
		return ""
	}
	separator := []byte("\n\n")
	rest, _, _ := bytes.Cut(stacks[i:], separator)
	begin := bytes.LastIndex(stacks[:i], separator)
	return string(bytes.TrimSpace(stacks[max(begin, 0) : i+len(rest)]))
}
