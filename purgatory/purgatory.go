package purgatory

import (
	"reflect"
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
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
	id       uint32 // identity, stored in each operation that is submitted here
	life     life
	cfg      config
	timer    timer.Timer
	ownTimer *timer.SystemTimer // timer, if the purgatory has made it, else nil
	watchers *watchers.Watchers[K]
	reaping  reaping
	crew     crew[K]

	wishes  machine.Wishes
	places  sched.Int64  // taken by pending operations, with WithMaxPending
	chained sched.Bool   // a chain of registrations inside TryComplete was found: see tooDeep
	samples sched.Uint32 // taken by Inspect, each of other keys
	*pools[K]

	records  *observe.Records
	observed *observe.Callbacks[K] // nil without WithSlowCallback
	events
}

// pools are the objects that all purgatories with keys of a type use again. See
// docs/decisions.md#purgatories-share-their-pools.
type pools[K comparable] struct {
	walks    sched.Pool // of *walk[K]
	manyKeys sched.Pool // of *[]watchers.Wait[K]
}

// allPools has, for each type of keys, its *pools.
var allPools sync.Map

func poolsOf[K comparable]() *pools[K] {
	all, ok := allPools.Load(reflect.TypeFor[K]())
	if !ok {
		all, _ = allPools.LoadOrStore(reflect.TypeFor[K](), new(pools[K]))
	}
	return all.(*pools[K])
}

// New returns a running purgatory. name is its name in errors, logs and statistics, and must not be
// empty. Error: [ErrInvalidOption], because of an option or an empty name only: where these are
// constants, use [Must].
//
// All that wait for the same thing wait under one key. Where there is one such thing, as in a pool or
// a condition variable, K is struct{}, and the key struct{}{}.
//
// Call Close or Shutdown when you no longer need it. The first operation with a timeout starts a goroutine, the
// reaper, which runs until then; so do [WithTimer], [WithLogger] and [WithSlowCallback], in New. A purgatory
// that has no reaper is memory only, and needs no Close.
func New[K comparable](name string, opts ...Option) (*DelayedOperationPurgatory[K], error) {
	p := &DelayedOperationPurgatory[K]{name: name, id: identity.New(), pools: poolsOf[K]()}
	if name == "" {
		return nil, p.errorf(ErrInvalidOption, "the name is empty: errors, logs and metrics need one")
	}
	cfg := &p.cfg
	err := cfg.configure(opts)
	if err != nil {
		return nil, p.errorf(ErrInvalidOption, "%w", err)
	}
	now := func() time.Duration { return p.timer.Now() }
	p.records = observe.NewRecords(name, cfg.logger, cfg.panicHandler, now)
	p.observed = observe.NewCallbacks[K](p.records, cfg.slow, cfg.stuckStacks)
	p.watchers = watchers.New(watchers.Config[K]{
		Shards:     cfg.watcherShards,
		StaleLimit: cfg.purgeInterval,
		KeyLimit:   cfg.maxPendingPerKey,
		Kick:       p.crew.pool.Kick,
		End:        p.endHeld,
		Observe: stats.Config{
			Times: cfg.histograms,
			Keys:  cfg.keyStats,
			Now:   now,
		},
	})
	p.crew.p = p
	p.crew.pool.Init(cfg.signalWorkers, &p.crew)
	if h := cfg.hook; h != nil { // marked, then taken by a worker that runs: in this order no signal is overlooked
		h.Idle = func() bool { return !p.crew.Queued() && p.crew.idle() }
	}
	if p.timer = cfg.timer; p.timer == nil {
		opts := append(cfg.timerOptions, timer.WithWorkers(cfg.expiryWorkers), timer.WithPanicHandler(p.records.Panicked))
		switch {
		case !p.records.Off():
			opts = append(opts, timer.WithLogger(cfg.logger.With("purgatory", name)))
		case len(cfg.timerOptions) > 0: // among them may be a logger
			opts = append(opts, timer.WithLogger(cfg.logger))
		}
		p.ownTimer, err = timer.NewSystemTimer(opts...)
		if err != nil {
			return nil, p.errorf(ErrInvalidOption, "%w", err)
		}
		p.timer = p.ownTimer
	}
	p.tick = timer.Tick(p.timer)
	p.reaping.made = caller()
	_, manual := p.timer.(*timer.ManualTimer)
	if !manual && sched.MayLinger() { // see watch
		p.crew.pool.MayLinger()
	}
	if manual || !cfg.reaper {
		p.reaping.off.Store(true)
	} else if cfg.timer != nil || cfg.slow > 0 || !p.records.Off() {
		p.startReaper() // which also drives the timer for others, and looks for what is to be logged
	}
	return p, nil
}

// Must returns p, and panics if err is not nil:
//
//	var waiting = purgatory.Must(purgatory.New[string]("produce"))
func Must[K comparable](p *DelayedOperationPurgatory[K], err error) *DelayedOperationPurgatory[K] {
	if err != nil {
		panic(err)
	}
	return p
}

// Name returns the name that New was given.
func (p *DelayedOperationPurgatory[K]) Name() string { return p.name }

// The instance New[string] makes the compiler export the small functions of internal
// packages that the generic code calls. Without it no instance in another package inlines
// them, which costs an operation 150 instructions. The linker drops it. See
// docs/decisions.md#new-is-instantiated-in-its-package.
var _ = New[string]
