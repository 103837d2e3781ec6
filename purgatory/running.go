package purgatory

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

// WithSlowCallback reports callbacks (OnComplete, OnExpiration, and TryComplete when a check
// calls it, but not when the registration does) that take longer than threshold. While one
// still runs, [EventStuck] is logged, once, at most a reap interval after threshold has
// passed. When it returns, the goroutine that ran it logs [EventSlow]. [Stats] counts both.
// WithSlowCallback costs two readings of the clock and a lock for each callback. Default 0: off.
func WithSlowCallback(threshold time.Duration) Option { return func(c *config) { c.slow = threshold } }

// WithStuckStacks adds to [EventStuck] the stack of the goroutine that runs the
// callback. In a sweep that finds stuck callbacks, the runtime stops all goroutines once
// while it writes their stacks. It requires [WithSlowCallback].
func WithStuckStacks() Option { return func(c *config) { c.stuckStacks = true } }

// callbacks holds the callbacks that run now. It is used only with WithSlowCallback. It is
// safe for concurrent use.
type callbacks[K comparable] struct {
	p    *DelayedOperationPurgatory[K]
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

// running calls callback, a method of m's operation. The runtime writes m into a stack, as the argument
// of this function, and so [stackOf] finds the goroutine: to ask for its name at each callback would cost
// some microseconds. m is used after the call so that the compiler keeps it where the runtime looks.
//
//go:noinline
func running(m *machine.Machine, callback func()) {
	callback()
	runtime.KeepAlive(m)
}

// begin returns m, for end.
func (c *callbacks[K]) begin(m *machine.Machine, name string, key K) *machine.Machine {
	b := callback[K]{key: key, name: name, began: time.Now()}
	c.mu.Lock()
	if c.mu.running == nil {
		c.mu.running = make(map[*machine.Machine]callback[K])
	}
	c.mu.running[m] = b
	c.mu.Unlock()
	return m
}

// end must be deferred, since a callback that panics may be slow, too.
func (c *callbacks[K]) end(m *machine.Machine) {
	c.mu.Lock()
	b := c.mu.running[m]
	delete(c.mu.running, m)
	c.mu.Unlock()
	if p, elapsed := c.p, time.Since(b.began); elapsed > p.cfg.slow {
		c.slow.Add(1)
		name := nameOf(m, p.blame(m, kindOf(m.Operation()), "String", b.key))
		p.log(slog.LevelWarn, EventSlow, "operation", name, "callback", b.name,
			"elapsed", elapsed, "age", p.ageOf(m), "outcome", operation.Outcome(m.Outcome()).String(), "key", keyText(b.key))
	}
}

// oldest returns how many callbacks have been running for longer than the threshold, and how
// long the oldest has.
func (c *callbacks[K]) oldest() (stuck int64, oldest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.mu.running {
		elapsed := time.Since(b.began)
		oldest = max(oldest, elapsed)
		if elapsed > c.p.cfg.slow {
			stuck++
		}
	}
	return stuck, oldest
}

// takeStuck returns callbacks that have been running for longer than the threshold and were not
// logged, up to as many as are logged in a second. They are copies: a callback may return at any
// time.
func (c *callbacks[K]) takeStuck() (stuck map[*machine.Machine]callback[K]) {
	stuck = make(map[*machine.Machine]callback[K])
	c.mu.Lock()
	defer c.mu.Unlock()
	for m, b := range c.mu.running {
		if !b.logged && time.Since(b.began) > c.p.cfg.slow && len(stuck) < recordsPerSecond {
			b.logged = true
			c.mu.running[m], stuck[m] = b, b
		}
	}
	return stuck
}

// report logs stuck callbacks. It does not call the String method of an operation, whose
// callback runs.
func (c *callbacks[K]) report(stuck map[*machine.Machine]callback[K]) {
	stacks := sync.OnceValue(allStacks)
	for m, b := range stuck {
		args := []any{
			"operation", kindOf(m.Operation()), "callback", b.name,
			"elapsed", time.Since(b.began), "age", c.p.ageOf(m), "key", keyText(b.key),
		}
		if c.p.cfg.stuckStacks {
			args = append(args, "stack", stackOf(m, stacks()))
		}
		c.p.log(slog.LevelWarn, EventStuck, args...)
	}
}

// Waited returns how long op has waited: in OnComplete, from its registration until now. It returns 0 if op
// did not have to wait, or is an operation of another purgatory. Call it in a callback of op, or afterwards.
func (p *DelayedOperationPurgatory[K]) Waited(op operation.Operation) time.Duration {
	if m := machine.Find(op); m != nil && m.Owner() == p.id {
		return p.ageOf(m)
	}
	return 0
}

// ageOf returns how long ago m was accepted, 0 if it has not been watched.
func (p *DelayedOperationPurgatory[K]) ageOf(m *machine.Machine) time.Duration {
	if m.Start() < 0 {
		return 0
	}
	return p.timer.Now() - m.Start()
}

const maxStacks = 16 << 20 // bytes of all goroutines' stacks

// allStacks returns the stacks of all goroutines, or their first maxStacks bytes.
func allStacks() []byte {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || size == maxStacks {
			return buf[:n]
		}
	}
}

// stackOf returns the stack of the goroutine that runs a callback of m, "" if it is not among stacks.
func stackOf(m *machine.Machine, stacks []byte) string {
	i := bytes.Index(stacks, fmt.Appendf(nil, "purgatory.running(%p,", m))
	if i < 0 {
		return ""
	}
	separator := []byte("\n\n")
	rest, _, _ := bytes.Cut(stacks[i:], separator)
	begin := bytes.LastIndex(stacks[:i], separator)
	return string(bytes.TrimSpace(stacks[max(begin, 0) : i+len(rest)]))
}
