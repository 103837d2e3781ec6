package purgatory

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/reaper"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// DelayedOperationPurgatory holds operations that wait under keys of type K for their
// condition or their timeout. It is safe for concurrent use. The package comment says
// which methods may be called from where. Use [New] to make one.
type DelayedOperationPurgatory[K comparable] struct {
	name     string
	noKey    uint64 // the hash that those who wait without a key are found by
	id       uint32 // identity, stored in each operation that is submitted here
	cfg      config
	timer    timer.Timer
	own      *timer.SystemTimer // timer, if it is the purgatory's own, else nil
	watchers *watchers.Watchers[K]
	reaper   *reaper.ExpirationReaper // nil: off
	crew     crew[K]
	nesting  nesting

	wishes    machine.Wishes
	places    sched.Int64 // taken by pending operations, with WithMaxPending
	callbacks callbacks[K]
	records   recordRate
	forgotten forgotten[K]

	draining sched.Bool // Shutdown or Close has begun: no operation is accepted
	closed   sched.Bool // Close has begun
	emptied  sched.Bool // Close, or Shutdown, has ended what waited, in every shard

	claiming sched.Int64 // walks that claim operations
	exposed  atomic.Bool // CancelMatching has shown operations to the user

	waits    sched.Pool // of *waiting
	walks    sched.Pool // of *walk[K]
	endings  sched.Pool // of *ending[K]
	manyKeys sched.Pool // of *[]watchers.Wait[K]

	logger   *slog.Logger
	panicked guard.Handler // of a panic in user code other than an operation's method
	refused  refusals
	panics   atomic.Int64
	purges   atomic.Int64
	purged   atomic.Int64
	stalls   atomic.Int64  // of the reaper, see EventStalled
	samples  atomic.Uint32 // taken by Inspect, each of other keys

	tick      time.Duration // of timer
	hastySeen atomic.Bool   // a timeout was shorter
	gatesSeen atomic.Int64  // when lookAtGates last looked, on the timer's clock
	reporting sched.Bool    // a sweep looks for what is to be logged, or a goroutine logs it
	dueSeen   time.Duration // when overdue last looked, on the timer's clock
}

// New returns a running purgatory. name is its name in errors, logs and statistics, and must not be
// empty. Call Close or Shutdown when you no longer need it: it has goroutines. Error:
// [ErrInvalidOption].
func New[K comparable](name string, opts ...Option) (*DelayedOperationPurgatory[K], error) {
	p := &DelayedOperationPurgatory[K]{name: name, id: identity.New()}
	if name == "" {
		return nil, p.errorf(ErrInvalidOption, "the name is empty: errors, logs and metrics need one")
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, p.errorf(ErrInvalidOption, "%w", err)
	}
	p.cfg, p.logger = cfg, cfg.logger
	p.panicked = func(recovered any, stack []byte) { p.notePanic(recovered, stack) }
	p.watchers = watchers.New(watchers.Config[K]{
		Shards:     cfg.watcherShards,
		StaleLimit: cfg.purgeInterval,
		End:        p.endHeld,
		Observe: stats.Config{
			Times: cfg.histograms,
			Keys:  cfg.keyStats,
			Now:   func() time.Duration { return p.timer.Now() },
		},
	})
	var none K
	p.noKey = ^p.watchers.Hash(none)
	p.callbacks.p = p
	p.forgotten.p = p
	p.crew.p = p
	p.crew.pool = workers.New(cfg.signalWorkers, p.crew.work, p.crew.waiting, cfg.executor, func(err error) { p.log(slog.LevelWarn, EventRefused, "error", err) }, p.panicked)
	if p.timer = cfg.timer; p.timer == nil {
		p.own, err = timer.NewSystemTimer(append(cfg.timerOptions,
			timer.WithWorkers(cfg.expiryWorkers),
			timer.WithExecutor(cfg.executor),
			timer.WithPanicHandler(p.panicked),
			timer.WithLogger(cfg.logger.With("purgatory", name)))...)
		if err != nil {
			return nil, p.errorf(ErrInvalidOption, "%w", err)
		}
		p.timer = p.own
	}
	p.tick = timer.Tick(p.timer)
	if _, manual := p.timer.(*timer.ManualTimer); cfg.reaper && !manual {
		p.reaper = reaper.Start(labelled{p.timer, labels(name)}, cfg.reapInterval, p.reap(), p.panicked)
	}
	return p, nil
}

// Name returns the name that New was given.
func (p *DelayedOperationPurgatory[K]) Name() string { return p.name }

// AdvanceClock expires what is due, and purges. The reaper does this in a loop; call
// AdvanceClock yourself on a manual clock, or if you use [WithoutReaper].
//
// On the system's clock it blocks until something in the timer is due, at most for d, and
// reports whether anything was; expiry workers run the callbacks. Do not call it from a
// callback.
//
// On a manual clock it moves the time by d and reports whether an operation has expired;
// the callbacks have run on this goroutine when it returns. If another AdvanceClock is
// moving the clock, as when a callback calls it, it adds d to that move and returns false
// at once.
func (p *DelayedOperationPurgatory[K]) AdvanceClock(d time.Duration) bool {
	p.made()
	expired := p.timer.AdvanceClock(d)
	p.sweep(0)
	return expired
}

// sweep is the second job of the reaper: it purges, and looks for stuck callbacks and for expired
// operations that wait. stalled is how long the reaper has stalled, 0 if it has not.
//
// Another goroutine logs what sweep has found: the logger, or the String method of a key, may block,
// and the clock must not wait for it. While that goroutine works, sweep logs nothing.
func (p *DelayedOperationPurgatory[K]) sweep(stalled time.Duration) {
	purged := p.purge()
	p.lookAtGates(stalled > 0)
	if p.logger.Handler() == slog.DiscardHandler || p.reporting.Swap(true) {
		return
	}
	due, waited := p.overdue()
	stuck := p.callbacks.takeStuck()
	if stalled == 0 && purged == 0 && due == 0 && len(stuck) == 0 {
		p.reporting.Store(false)
		return
	}
	sched.Go(func() {
		defer p.reporting.Store(false)
		if stalled > 0 {
			p.log(slog.LevelWarn, EventStalled, "elapsed", stalled, "interval", p.cfg.reapInterval)
		}
		if purged > 0 {
			p.log(slog.LevelDebug, EventPurged, "entries", purged)
		}
		if due > 0 {
			p.log(slog.LevelWarn, EventDue, "due", due, "elapsed", waited)
		}
		p.callbacks.report(stuck)
	})
}

// purge unlinks the watches that ended operations have left in lists, and returns their number.
func (p *DelayedOperationPurgatory[K]) purge() (n int) {
	if n = p.watchers.Purge(); n > 0 {
		p.purges.Add(1)
		p.purged.Add(int64(n))
	}
	return n
}

// Close closes the purgatory at once: it rejects new operations, ends every pending
// operation as closed, with the callbacks on this goroutine, and tells the reaper and the
// workers to stop. It returns nil.
//
// Close does not block. If another goroutine is trying an operation at this moment, that
// goroutine ends it. Callbacks on other goroutines may still be running when Close
// returns; [DelayedOperationPurgatory.Shutdown] waits for them. Close may be called from
// any callback. A second call does nothing.
func (p *DelayedOperationPurgatory[K]) Close() error {
	p.made()
	p.close(false)
	return nil
}

// close is Close. With later, signal workers run the callbacks.
func (p *DelayedOperationPurgatory[K]) close(later bool) {
	p.draining.Store(true)
	first := !p.closed.Swap(true)
	if first {
		defer p.noteClose(time.Now())
		defer p.stop() // also when a callback ends the goroutine
	}
	// Shutdown also ends what an earlier Close has not reached, since a callback may block it.
	if first || later {
		p.watchers.Close()
		guard.Finish(p.endAll, later)
	}
}

// endAll ends every operation as closed, and returns true.
func (p *DelayedOperationPurgatory[K]) endAll(later bool) bool {
	for k := range p.watchers.AllKeys() {
		w := p.newWalk(k.Key, k.Hash, EveryPosition)
		w.claim, w.later = machine.Closed, later
		w.begin()
	}
	p.emptied.Store(true)
	return true
}

// stop tells the reaper and the purgatory's own timer to end. Signal workers still do the
// work that is queued.
func (p *DelayedOperationPurgatory[K]) stop() {
	p.purge()                // the reaper does not purge again
	p.forgotten.checkedAll() // so that no timer keeps p in memory
	if p.reaper != nil {
		p.reaper.Stop()
	}
	if p.own != nil {
		p.own.Stop()
	}
}

// Shutdown closes the purgatory gracefully. It rejects new operations, waits until the
// pending operations have ended or ctx has, and then closes the purgatory. It returns nil
// when every callback has run and every goroutine of the purgatory has ended. (A registration that
// goes on meanwhile, and is refused, may start a worker, which finds nothing and ends. The record of an
// executor's refusal may still be with the logger.)
//
// If ctx ends before that, Shutdown returns ctx's cause. Every operation has ended then,
// except those that other goroutines are registering or trying: these end them when the
// tries return.
// Signal workers run the callbacks, and Shutdown does not wait for them; call it again to
// wait. A Shutdown that is called from a callback waits for that callback, and so until
// ctx ends.
func (p *DelayedOperationPurgatory[K]) Shutdown(ctx context.Context) error {
	p.made()
	mustContext(ctx, "Shutdown")
	if !p.draining.Swap(true) {
		p.log(slog.LevelInfo, EventShutdown, "pending", p.NumDelayed())
	}
	// A registration may have looked at draining before. It must not be accepted after the
	// purgatory was found idle, because close would end it although it has time left.
	p.watchers.Close()
	idle := p.poll(ctx, p.watchers.Quiet)
	p.close(true)
	if p.reaper != nil {
		if err := p.reaper.Wait(ctx); err != nil {
			return err
		}
	}
	if !idle || !p.poll(ctx, p.idle) {
		return context.Cause(ctx)
	}
	p.purge()
	return nil
}

// idle reports whether the callbacks of every accepted operation have run and returned, no worker
// runs or has work, and no goroutine logs for a sweep or a forgotten check.
func (p *DelayedOperationPurgatory[K]) idle() bool {
	return p.watchers.Quiet() && p.watchers.Inside() == 0 && p.crew.idle() &&
		(p.own == nil || p.own.Idle()) && !p.reporting.Load() && p.forgotten.waiting.Load() == 0
}

// poll returns true when quiet does, and false if ctx ends first. It polls, as net/http's
// Shutdown does: a notification would make every operation slower. In between it sweeps,
// because the reaper may have ended.
func (p *DelayedOperationPurgatory[K]) poll(ctx context.Context, quiet func() bool) bool {
	pause := time.Millisecond
	for !quiet() {
		if ctx.Err() != nil {
			return false
		}
		sched.Pause(pause, ctx.Done())
		pause = min(2*pause, 50*time.Millisecond)
		p.sweep(0)
	}
	return true
}

// The instance New[string] makes the compiler export the small functions of internal
// packages that the generic code calls. Without it no instance in another package inlines
// them, which costs an operation 150 instructions. The linker drops it.
var _ = New[string]
