package purgatory

import (
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// Purgatory is short for [DelayedOperationPurgatory], the name that Kafka gave it.
type Purgatory[K comparable] = DelayedOperationPurgatory[K]

// DelayedOperationPurgatory holds operations that wait under keys of type K for their
// condition or their timeout. It is safe for concurrent use. The package comment says
// which methods may be called from where. Use [New] to make one.
type DelayedOperationPurgatory[K comparable] struct {
	name     string
	noKey    uint64 // the hash that those who wait without a key are found by
	id       uint32 // identity, stored in each operation that is submitted here
	life     life
	cfg      config
	timer    timer.Timer
	own      *timer.SystemTimer // timer, if it is the purgatory's own, else nil
	watchers *watchers.Watchers[K]
	reaping  reaping
	crew     crew[K]

	wishes  machine.Wishes
	places  sched.Int64 // taken by pending operations, with WithMaxPending
	chained sched.Bool  // a chain of registrations inside TryComplete was found: see tooDeep
	pools[K]

	callbacksNow callbacks[K]
	events
}

// pools are the objects that are used again.
type pools[K comparable] struct {
	channels sched.Pool // of chan struct{}
	walks    sched.Pool // of *walk[K]
	manyKeys sched.Pool // of *[]watchers.Wait[K]
}

// New returns a running purgatory. name is its name in errors, logs and statistics, and must not be
// empty. Error: [ErrInvalidOption].
//
// Call Close or Shutdown when you no longer need it. The first timeout that passes starts a goroutine, the
// reaper, which runs until then; so do [WithTimer], [WithLogger] and [WithSlowCallback], in New. A purgatory
// that has no reaper is memory only, and needs no Close.
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
		KeyLimit:   cfg.maxPendingPerKey,
		Kick:       func() { p.crew.pool.Kick() },
		End:        p.endHeld,
		Observe: stats.Config{
			Times: cfg.histograms,
			Keys:  cfg.keyStats,
			Now:   func() time.Duration { return p.timer.Now() },
		},
	})
	var none K
	p.noKey = ^p.watchers.Hash(none)
	p.callbacksNow.p = p
	p.crew.p = p
	p.crew.pool = workers.New(cfg.signalWorkers, p.crew.work, p.crew.waiting)
	if h := cfg.hook; h != nil { // marked, then taken by a worker that runs: in this order no signal is overlooked
		h.Idle = func() bool { return !p.crew.waiting() && p.crew.idle() }
	}
	if p.timer = cfg.timer; p.timer == nil {
		p.own, err = timer.NewSystemTimer(append(cfg.timerOptions,
			timer.WithWorkers(cfg.expiryWorkers),
			timer.WithPanicHandler(p.panicked),
			timer.WithLogger(cfg.logger.With("purgatory", name)))...)
		if err != nil {
			return nil, p.errorf(ErrInvalidOption, "%w", err)
		}
		p.timer = p.own
	}
	p.tick = timer.Tick(p.timer)
	p.reaping.made = caller()
	if _, manual := p.timer.(*timer.ManualTimer); manual || !cfg.reaper {
		p.reaping.off.Store(true)
	} else if cfg.timer != nil || cfg.slow > 0 || cfg.logger.Handler() != slog.DiscardHandler {
		p.startReaper() // which also drives the timer for others, and looks for what is to be logged
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
	stuck := p.callbacksNow.takeStuck()
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
		p.callbacksNow.report(stuck)
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

// The instance New[string] makes the compiler export the small functions of internal
// packages that the generic code calls. Without it no instance in another package inlines
// them, which costs an operation 150 instructions. The linker drops it.
var _ = New[string]
