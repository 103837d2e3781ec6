package purgatory

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// WithSlowCallback reports callbacks (OnComplete, OnExpiration, and TryComplete when a check
// calls it, but not when the registration does) that take longer than threshold. While one
// still runs, the reaper logs [EventStuck], once, at most a reap interval after threshold has
// passed. When it returns,
// the goroutine that ran it logs [EventSlow]. [Stats] counts both. WithSlowCallback costs
// two readings of the clock and a lock for each callback. Default 0: off.
func WithSlowCallback(threshold time.Duration) Option { return func(c *config) { c.slow = threshold } }

// WithStuckStacks adds to [EventStuck] the stack of the goroutine that runs the
// callback. It costs a microsecond for each callback, and for each such record the
// runtime stops all goroutines while it writes their stacks. It requires
// [WithSlowCallback].
func WithStuckStacks() Option { return func(c *config) { c.stuckStacks = true } }

// callbacks holds the callbacks that run now. It is used only with WithSlowCallback.
type callbacks[K comparable] struct {
	sched.Mutex // lock level 9, taken with no other held
	running     map[*callback[K]]struct{}
	spare       sync.Pool // of *callback
}

// callback is a call of an operation's method.
type callback[K comparable] struct {
	m         *machine.Machine
	key       K
	name      string
	began     time.Time
	goroutine []byte // how the runtime names it in a stack; nil without WithStuckStacks
	logged    bool   // guarded by the callbacks' lock
}

func (p *DelayedOperationPurgatory[K]) beginCallback(m *machine.Machine, name string, key K) *callback[K] {
	c := p.callbacks.spare.Get().(*callback[K])
	*c = callback[K]{m: m, name: name, key: key, began: time.Now()}
	if p.cfg.stuckStacks {
		c.goroutine = goroutine()
	}
	p.callbacks.Lock()
	p.callbacks.running[c] = struct{}{}
	p.callbacks.Unlock()
	return c
}

// endCallback must be deferred, since a callback that panics may be slow, too.
func (p *DelayedOperationPurgatory[K]) endCallback(c *callback[K]) {
	p.callbacks.Lock()
	delete(p.callbacks.running, c)
	p.callbacks.Unlock()
	m, name, key, elapsed := c.m, c.name, c.key, time.Since(c.began)
	*c = callback[K]{}
	p.callbacks.spare.Put(c)
	if elapsed > p.cfg.slow {
		p.slow.Add(1)
		text := operationText(m, func(recovered any, stack []byte) {
			p.notePanic(recovered, stack, "operation", kindOf(m.Operation()), "callback", "String", "key", keyText(key))
		})
		p.log(slog.LevelWarn, EventSlow, "operation", text, "callback", name,
			"elapsed", elapsed, "age", p.ageOf(m), "outcome", operation.Outcome(m.Outcome()).String(), "key", keyText(key))
	}
}

// timedOperation is the operation of a check's hold with a TryComplete that is timed.
type timedOperation[K comparable] struct {
	machine.Operation
	hold *hold[K]
}

func (t *timedOperation[K]) TryComplete() bool {
	h := t.hold
	defer h.p.endCallback(h.p.beginCallback(h.Machine, "TryComplete", h.logKey()))
	return t.Operation.TryComplete()
}

func (p *DelayedOperationPurgatory[K]) timed(m *machine.Machine, name string, key K, callback func()) {
	defer p.endCallback(p.beginCallback(m, name, key))
	callback()
}

// ageOf returns how long ago m was accepted, 0 if it has not been watched.
func (p *DelayedOperationPurgatory[K]) ageOf(m *machine.Machine) time.Duration {
	if m.Start() < 0 {
		return 0
	}
	return p.timer.Now() - m.Start()
}

// oldestCallback returns how many callbacks have been running for longer than the
// threshold, and how long the oldest has.
func (p *DelayedOperationPurgatory[K]) oldestCallback() (stuck int64, oldest time.Duration) {
	p.callbacks.Lock()
	defer p.callbacks.Unlock()
	for c := range p.callbacks.running {
		elapsed := time.Since(c.began)
		oldest = max(oldest, elapsed)
		if elapsed > p.cfg.slow {
			stuck++
		}
	}
	return stuck, oldest
}

// noteStuck logs each callback that has been running for longer than the threshold,
// once. It does not call the String method of its operation, whose callback runs.
func (p *DelayedOperationPurgatory[K]) noteStuck() {
	var stuck []callback[K]
	p.callbacks.Lock()
	for c := range p.callbacks.running {
		if !c.logged && time.Since(c.began) > p.cfg.slow {
			c.logged = true
			stuck = append(stuck, *c) // a copy: the callback may return at any time
		}
	}
	p.callbacks.Unlock()
	for _, c := range stuck {
		args := []any{
			"operation", kindOf(c.m.Operation()), "callback", c.name,
			"elapsed", time.Since(c.began), "age", p.ageOf(c.m), "key", keyText(c.key),
		}
		if c.goroutine != nil {
			args = append(args, "stack", stackOf(c.goroutine))
		}
		p.log(slog.LevelWarn, EventStuck, args...)
	}
}

// goroutine returns how the runtime names the calling goroutine in a stack: "goroutine
// 18 ".
func goroutine() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	return buf[:bytes.IndexByte(buf, '[')]
}

const maxStacks = 16 << 20 // bytes of all goroutines' stacks

// stackOf returns the stack of a goroutine, or "" if that is not among the first
// maxStacks bytes.
func stackOf(goroutine []byte) string {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStacks {
		buf = make([]byte, 2*n)
		n = runtime.Stack(buf, true)
	}
	for block := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(block, goroutine) {
			return string(block)
		}
	}
	return ""
}

// operationText returns what an operation's String method returns, or its type if it has
// none. It is for the goroutine that has just called one of the operation's methods. String
// runs apart: a runtime.Goexit there does not undo what that goroutine has found out. A
// panic goes to h.
func operationText(m *machine.Machine, h guard.Handler) (text string) {
	op := m.Operation()
	text = kindOf(op)
	if s, ok := op.(fmt.Stringer); ok {
		guard.Apart(func() { text = cut(s.String()) }, h)
	}
	return text
}
