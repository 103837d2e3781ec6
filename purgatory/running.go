package purgatory

import (
	"bytes"
	"log/slog"
	"runtime"
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
// callback. It costs a microsecond for each callback. In a sweep that finds stuck callbacks,
// the runtime stops all goroutines once while it writes their stacks. It requires
// [WithSlowCallback].
func WithStuckStacks() Option { return func(c *config) { c.stuckStacks = true } }

// callbacks holds the callbacks that run now. It is used only with WithSlowCallback. It is
// safe for concurrent use.
type callbacks[K comparable] struct {
	p     *DelayedOperationPurgatory[K]
	spare sched.Pool   // of *callback
	slow  atomic.Int64 // callbacks that took longer than the threshold

	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		running map[*callback[K]]struct{}
	}
}

// callback is a call of an operation's method.
type callback[K comparable] struct {
	m         *machine.Machine
	key       K // the operation's first
	name      string
	began     time.Time
	goroutine []byte // how the runtime names it in a stack; nil without WithStuckStacks
	logged    bool   // guarded by callbacks.mu
}

func (c *callbacks[K]) begin(m *machine.Machine, name string, key K) *callback[K] {
	b, _ := c.spare.Get().(*callback[K])
	if b == nil {
		b = new(callback[K])
	}
	*b = callback[K]{m: m, name: name, key: key, began: time.Now()}
	if c.p.cfg.stuckStacks {
		b.goroutine = goroutine()
	}
	c.mu.Lock()
	if c.mu.running == nil {
		c.mu.running = make(map[*callback[K]]struct{})
	}
	c.mu.running[b] = struct{}{}
	c.mu.Unlock()
	return b
}

// end must be deferred, since a callback that panics may be slow, too.
func (c *callbacks[K]) end(b *callback[K]) {
	c.mu.Lock()
	delete(c.mu.running, b)
	c.mu.Unlock()
	if p, m, elapsed := c.p, b.m, time.Since(b.began); elapsed > p.cfg.slow {
		c.slow.Add(1)
		name := nameOf(m, p.blame(m, kindOf(m.Operation()), "String", b.key))
		p.log(slog.LevelWarn, EventSlow, "operation", name, "callback", b.name,
			"elapsed", elapsed, "age", p.ageOf(m), "outcome", operation.Outcome(m.Outcome()).String(), "key", keyText(b.key))
	}
	*b = callback[K]{}
	c.spare.Put(b)
}

// oldest returns how many callbacks have been running for longer than the threshold, and how
// long the oldest has.
func (c *callbacks[K]) oldest() (stuck int64, oldest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.mu.running {
		elapsed := time.Since(b.began)
		oldest = max(oldest, elapsed)
		if elapsed > c.p.cfg.slow {
			stuck++
		}
	}
	return stuck, oldest
}

// takeStuck returns callbacks that have been running for longer than the threshold and were not
// logged, up to as many as are logged in a second.
func (c *callbacks[K]) takeStuck() (stuck []callback[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.mu.running {
		if !b.logged && time.Since(b.began) > c.p.cfg.slow && len(stuck) < recordsPerSecond {
			b.logged = true
			stuck = append(stuck, *b) // a copy: the callback may return at any time
		}
	}
	return stuck
}

// report logs stuck callbacks. It does not call the String method of an operation, whose
// callback runs.
func (c *callbacks[K]) report(stuck []callback[K]) {
	var stacks []byte
	if c.p.cfg.stuckStacks && len(stuck) > 0 {
		stacks = allStacks()
	}
	for _, b := range stuck {
		args := []any{
			"operation", kindOf(b.m.Operation()), "callback", b.name,
			"elapsed", time.Since(b.began), "age", c.p.ageOf(b.m), "key", keyText(b.key),
		}
		if b.goroutine != nil {
			args = append(args, "stack", stackOf(b.goroutine, stacks))
		}
		c.p.log(slog.LevelWarn, EventStuck, args...)
	}
}

// ageOf returns how long ago m was accepted, 0 if it has not been watched.
func (p *DelayedOperationPurgatory[K]) ageOf(m *machine.Machine) time.Duration {
	if m.Start() < 0 {
		return 0
	}
	return p.timer.Now() - m.Start()
}

// goroutine returns how the runtime names the calling goroutine in a stack: "goroutine
// 18 ".
func goroutine() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	return buf[:bytes.IndexByte(buf, '[')]
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

// stackOf returns the stack of a goroutine, "" if it is not among stacks.
func stackOf(goroutine, stacks []byte) string {
	for block := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.HasPrefix(block, goroutine) {
			return string(block)
		}
	}
	return ""
}
