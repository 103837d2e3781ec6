package purgatory

import (
	"hash/maphash"
	"time"

	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// DelayedOperationPurgatory is the name that Kafka gave it.
type DelayedOperationPurgatory[K comparable] = Purgatory[K]

// Purgatory holds operations that wait under keys of type K for their condition or their timeout. It is safe for
// concurrent use. See the package comment.
type Purgatory[K comparable] struct {
	id       uint32     // identity, stored in each operation that is submitted here
	closed   sched.Bool // Close or Shutdown has begun: no operation is accepted, see watchers.Config
	closing  sched.Bool // Close has begun, or Shutdown ends what waits
	cfg      config
	entries  *timer.Entries     // of cfg.timer: direct calls, so that what they are given stays on the stack
	ownTimer *timer.SystemTimer // cfg.timer, if the purgatory has made it, else nil
	seed     maphash.Seed       // of the keys' hashes
	watchers *watchers.Watchers[K]
	reaping  reaping
	crew     crew[K]

	causes   causes
	places   sched.Int64 // taken, with WithMaxPending
	channels sched.Pool  // of chan struct{}: see block
	records  observe.Records
	counters
}

// New returns a running purgatory. name is its name in errors, logs and statistics, and must not be empty. Error:
// [ErrInvalidOption], because of an option or an empty name only: where these are constants, use [Must].
//
// All that wait for the same thing wait under one key. Where there is one such thing, as in a condition variable, K is
// struct{}. Each shard keeps two keys, to report what has expired, until others take their place, and those under
// which callbacks have run until the reaper, or Stats, looks: where keys are pointers, what they refer to stays in memory as long.
//
// Call Close or Shutdown when you no longer need it: the first operation with a timeout starts a goroutine, the reaper,
// which runs until then; so do [WithTimer] and [WithLogger], in New.
//
// A purgatory for a bubble of [testing/synctest] must be made inside it. One that was made outside panics when an
// operation is registered or extended inside, unless its timer is a [timer.ManualTimer].
func New[K comparable](name string, opts ...Option) (*Purgatory[K], error) {
	p := &Purgatory[K]{id: identity.New(), seed: maphash.MakeSeed()}
	p.records.Purgatory = name
	if name == "" {
		return nil, p.errorf(ErrInvalidOption, "the name is empty: errors, logs and metrics need one")
	}
	cfg := &p.cfg
	err := cfg.configure(opts)
	if err != nil {
		return nil, p.errorf(ErrInvalidOption, "%w", err)
	}
	p.records.Logger, p.records.Handler = cfg.logger, cfg.panicHandler
	p.watchers = watchers.New(watchers.Config[K]{
		Shards:     cfg.watcherShards,
		StaleLimit: cfg.purgeInterval,
		Closed:     &p.closed,
		KeyLimit:   cfg.maxPendingPerKey,
		Kick:       p.crew.pool.Kick,
		End:        p.expired,
		Waited:     cfg.diagnostics,
		Now:        func() time.Duration { return cfg.timer.Now() },
	})
	p.crew.p = p
	p.crew.pool.Init(cfg.workers, &p.crew)
	if cfg.hook != nil {
		p.hooked(cfg.hook)
	}
	if cfg.timer == nil {
		opts := append(cfg.timerOptions, timer.WithWorkers(cfg.workers), timer.WithPanicHandler(p.records.Panicked))
		if cfg.logger != nil {
			opts = append(opts, timer.WithLogger(cfg.logger.With("purgatory", name)))
		}
		p.ownTimer, err = timer.NewSystemTimer(opts...)
		if err != nil {
			return nil, p.errorf(ErrInvalidOption, "%w", err)
		}
		cfg.timer = p.ownTimer
	}
	p.entries = cfg.timer.Entries()
	_, manual := cfg.timer.(*timer.ManualTimer)
	if !manual && !sched.InBubble() { // a bubble could not end
		p.crew.pool.MayLinger()
	}
	if manual || !cfg.reaper {
		p.reaping.off.Store(true)
	} else if p.ownTimer == nil || cfg.logger != nil {
		p.startReaper() // which also drives the timer for others, and looks for what is to be logged
	}
	return p, nil
}

// Must returns p, and panics if err is not nil:
//
//	var waiting = purgatory.Must(purgatory.New[string]("produce"))
func Must[K comparable](p *Purgatory[K], err error) *Purgatory[K] {
	if err != nil {
		panic(err)
	}
	return p
}

// Name returns the name that New was given.
func (p *Purgatory[K]) Name() string { return p.records.Purgatory }

// The instance New[string] makes the compiler export the small functions of internal packages that the generic code
// calls, which other packages' instances then inline. The linker drops it. See
// docs/internals/decisions.md#new-is-instantiated-in-its-package.
var _ = New[string]
