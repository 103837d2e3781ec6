package purgatory

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/delayedop/purgatory/timer"
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

// gateInterval is how long after a look at the gates the next one comes at the earliest: a busy
// reaper sweeps many times a second.
const gateInterval = 200 * time.Millisecond

// lookAtGates notes in a sweep in which gates user code runs, for [Stats.BlockedFor]. After a stall
// of the reaper it begins anew: the user code did not run meanwhile either.
func (p *DelayedOperationPurgatory[K]) lookAtGates(stalled bool) {
	now := p.timer.Now()
	if stalled || now-time.Duration(p.gatesSeen.Load()) >= gateInterval {
		p.gatesSeen.Store(int64(now))
		p.watchers.Blocked(now, stalled)
	}
}

// hasty logs, once, that a timeout is shorter than a tick: perhaps its unit is missing.
func (p *DelayedOperationPurgatory[K]) hasty(timeout time.Duration) {
	if p.hastySeen.Swap(true) {
		return
	}
	args := []any{"timeout", timeout, "tick", p.tick, "hint", "a number without a unit counts nanoseconds: write " +
		strconv.FormatInt(int64(timeout), 10) + "*time.Second, for example"}
	if !p.tell(p.logger, slog.LevelWarn, EventShortTimeout, args, nil) {
		p.tell(slog.Default(), slog.LevelWarn, EventShortTimeout, args, nil)
	}
}

// made panics unless New has made p, and says so: the runtime would only report a nil pointer.
func (p *DelayedOperationPurgatory[K]) made() {
	switch {
	case p == nil:
		panic("purgatory: the purgatory is nil: make one with purgatory.New, and look at its error")
	case p.watchers == nil:
		panic("purgatory: the purgatory is a zero value: make one with purgatory.New")
	}
}

// mustContext panics if ctx is nil, and says what to do.
func mustContext(ctx context.Context, method string) {
	if ctx == nil {
		panic("purgatory: " + method + " was called with a nil context: use context.Background()")
	}
}

// labelled is a timer for the reaper, whose goroutine gets labels: the purgatory's name, and where
// New was called. Goroutine profiles show them, and with GODEBUG=tracebacklabels=1 (from Go 1.26 on)
// all stacks, among them those that goleak prints. The expiry workers that the reaper starts inherit
// them.
type labelled struct {
	timer  timer.Timer
	labels context.Context
}

// AdvanceClockUntil sets the labels each time, since after a runtime.Goexit another goroutine is the reaper.
func (l labelled) AdvanceClockUntil(stop <-chan struct{}, d time.Duration) bool {
	pprof.SetGoroutineLabels(l.labels)
	return l.timer.AdvanceClockUntil(stop, d)
}

// labels returns the labels of a purgatory with this name; made is the program counter of the call of New.
func labels(name string, at uintptr) context.Context {
	made := "?"
	if frame, _ := runtime.CallersFrames([]uintptr{at}).Next(); frame.File != "" {
		made = frame.File + ":" + strconv.Itoa(frame.Line)
	}
	return pprof.WithLabels(context.Background(), pprof.Labels("purgatory", name, "made at", made))
}

// caller returns the program counter of the call of New, which calls caller.
func caller() uintptr {
	var at [1]uintptr
	runtime.Callers(3, at[:])
	return at[0]
}
