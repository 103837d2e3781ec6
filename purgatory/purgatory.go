package purgatory

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	uatomic "go.uber.org/atomic"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/reaper"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// DelayedOperationPurgatory holds operations that wait, under keys of type K, for
// their condition or their timeout. It is safe for concurrent use. See the package
// comment for what may be called from where.
type DelayedOperationPurgatory[K comparable] struct {
	name     string
	cfg      config
	timer    timer.Timer
	own      *timer.SystemTimer // timer, if it is the purgatory's own, else nil
	watchers *watchers.Watchers[K]
	reaper   *reaper.ExpirationReaper // nil: off
	signals  *workers.Pool            // checks for Signal; callbacks of stuck shards
	checks   sync.Pool                // of *check[K]
	panicked guard.Handler
	logger   *slog.Logger

	draining uatomic.Bool // Shutdown: nothing new
	closed   uatomic.Bool
	pending  atomic.Int64 // kept only with WithMaxPending
	rejected atomic.Int64
	panics   atomic.Int64
	purges   atomic.Int64
	purged   atomic.Int64
	turn     atomic.Uint32 // spreads signal workers over the shards

	// wishes holds the causes of cancellations that were left to the goroutine
	// that runs the operation's check.
	wishes struct {
		sched.Mutex
		causes map[*operation.Machine]*error
	}

	// rescue holds shards whose callbacks are queued behind blocked ones.
	rescue struct {
		sched.Mutex
		shards []*watchers.Shard[K]
	}
}

// New returns a running purgatory; name is what it calls itself in errors, logs and
// statistics. It has to be closed, by Close or Shutdown. Error: ErrInvalidOption.
func New[K comparable](name string, opts ...Option) (*DelayedOperationPurgatory[K], error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	p := &DelayedOperationPurgatory[K]{name: name, cfg: cfg, logger: cfg.logger}
	p.panicked = p.notePanic
	p.wishes.causes = make(map[*operation.Machine]*error)
	p.watchers = watchers.New(watchers.Config[K]{
		Shards:     cfg.watcherShards,
		StaleLimit: cfg.purgeInterval,
		End:        p.end,
		Observe:    cfg.observe,
		Now:        func() time.Duration { return p.timer.Now() },
	})
	p.checks.New = func() any { return &check[K]{p: p} }
	p.signals = workers.New(cfg.workers, p.work, p.working, cfg.executor, p.refused, p.panicked)
	if p.timer = cfg.timer; p.timer == nil {
		p.own, err = timer.NewSystemTimer(append(cfg.timerOptions,
			timer.WithWorkers(cfg.workers),
			timer.WithExecutor(cfg.executor),
			timer.WithPanicHandler(p.panicked),
			timer.WithLogger(cfg.logger.With("purgatory", name)))...)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidOption, err)
		}
		p.timer = p.own
	}
	if _, manual := p.timer.(*timer.ManualTimer); cfg.reaper && !manual {
		p.reaper = reaper.Start(p.timer, cfg.reapInterval, p.reap(), p.panicked)
	}
	return p, nil
}

// Name returns the name that New was given.
func (p *DelayedOperationPurgatory[K]) Name() string { return p.name }

// AdvanceClock lets up to d of time pass, expires what is due, and purges. It is
// what the reaper calls in a loop, with 200 ms; call it by hand when the reaper is
// off. On the system's clock it waits for something to expire, up to d, and is not for
// callbacks. On a manual one it moves the time by d, and the callbacks of what expires
// run on this goroutine before it returns; called from one of them, it adds d to the
// move that is under way. It reports whether anything expired.
func (p *DelayedOperationPurgatory[K]) AdvanceClock(d time.Duration) bool {
	expired := p.timer.AdvanceClock(d)
	p.sweep()
	return expired
}

// sweep is the second job of the reaper: it takes out watches of ended operations
// that were left, and gives to workers what waits for them for want of a goroutine.
func (p *DelayedOperationPurgatory[K]) sweep() {
	p.purge()
	if p.watchers.Queued() {
		p.rescueStuck()
	}
	if p.working() {
		p.signals.Kick()
	}
}

// rescueStuck finds the shards whose queued callbacks nobody has taken since the last
// time.
func (p *DelayedOperationPurgatory[K]) rescueStuck() {
	shards := p.watchers.Shards()
	for i := range shards {
		if !shards[i].Stuck() {
			continue
		}
		p.rescue.Lock()
		if !slices.Contains(p.rescue.shards, &shards[i]) {
			p.rescue.shards = append(p.rescue.shards, &shards[i])
		}
		p.rescue.Unlock()
	}
}

func (p *DelayedOperationPurgatory[K]) purge() {
	if n := p.watchers.Purge(); n > 0 {
		p.purges.Add(1)
		p.purged.Add(int64(n))
		p.logger.Debug(EventPurged, "purgatory", p.name, "entries", n)
	}
}

func (p *DelayedOperationPurgatory[K]) refused(err error) {
	p.logger.Warn(EventRefused, "purgatory", p.name, "error", err)
}
