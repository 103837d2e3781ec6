package purgatory

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
)

// WithDiagnostics turns on what shows why requests wait: [WithHistograms], [WithKeyStats] for 512
// keys, [WithSlowCallback] with 100 ms, and [WithStuckStacks]. Use it in the first weeks of a server, and
// longer wherever half a microsecond of processor time for each operation does not matter. It allocates
// nothing for an operation. docs/operations.md has the figures. An option that comes after it overrides
// its part. Default: off.
func WithDiagnostics() Option {
	return func(c *config) {
		for _, o := range []Option{WithHistograms(), WithKeyStats(512), WithSlowCallback(100 * time.Millisecond), WithStuckStacks()} {
			o(c)
		}
	}
}

// WithTimeoutsExpected says that in this purgatory a timeout is a normal end: of a session that falls
// silent, of a long poll without news, of a fetch at the end of a log, of a worker for which there is
// no job. It sets [Stats.TimeoutsExpected] and changes nothing else. The page of package debug and the
// alert rules of plugin/prometheus then take no notice of how many operations expire. Without it they
// report a purgatory in which more than a few operations expire. Default: off.
func WithTimeoutsExpected() Option { return func(c *config) { c.expiryNormal = true } }

// WithSlowCallback reports callbacks (OnComplete, OnExpiration, and TryComplete when a check
// calls it, but not when the registration does) that take longer than threshold. While one
// still runs, [EventStuck] is logged, once, at most a reap interval after threshold has
// passed. When it returns, the goroutine that ran it logs [EventSlow]. [Stats] counts both.
// WithSlowCallback costs two readings of the clock and a lock for each callback, and 60 ns of a call of Stats for each
// callback that runs at that moment. Default 0: off.
func WithSlowCallback(threshold time.Duration) Option { return func(c *config) { c.slow = threshold } }

// WithStuckStacks adds to [EventStuck] the stack of the goroutine that runs the
// callback. In a sweep that finds stuck callbacks, the runtime stops all goroutines once
// while it writes their stacks, for a twentieth of the time at most: of very many stuck callbacks some are logged
// later. It requires [WithSlowCallback].
func WithStuckStacks() Option { return func(c *config) { c.stuckStacks = true } }

// Waited returns how long op has waited: in OnComplete, from its registration until now. It returns 0 if op
// did not have to wait, or is an operation of another purgatory. Call it in a callback of op: it goes on growing.
func (p *DelayedOperationPurgatory[K]) Waited(op operation.Operation) time.Duration {
	if m := machine.Find(op); m != nil && m.Owner() == p.id {
		return p.records.AgeOf(m)
	}
	return 0
}

// hasty logs, once, that a timeout is shorter than a tick: perhaps its unit is missing.
func (p *DelayedOperationPurgatory[K]) hasty(timeout time.Duration) {
	if p.hastySeen.Swap(true) {
		return
	}
	p.records.LogOrDefault(slog.LevelWarn, EventShortTimeout, "timeout", timeout, "tick", p.tick,
		"hint", fmt.Sprintf("a number without a unit counts nanoseconds: write %d*time.Second, for example", int64(timeout)))
}
