package signals

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// Runner runs a source and delivers its hints to a purgatory. It is safe for concurrent
// use, and it is the [Sink] of the source. [To] returns one.
type Runner[K comparable] struct {
	waiters Waiters[K]
	cfg     config
	read    func(context.Context, []K) error // of WithResync, or nil
	began   time.Time                        // when To returned r
	asked   sched.Token                      // a re-check is due
	gapped  sched.Bool                       // there was a gap
	probes  sched.Token                      // hearItself has something to do
	repeats *repeats[K]
	running sched.Bool

	hints, unawaited sched.Int64
	lastWord         sched.Int64 // when a source last called r, in nanoseconds since began

	rechecks, reads, failed, audits sched.Int64
	lag                             sched.Int64 // how long after a hint a read was still behind it, at most

	longestAudit sched.Int64 // of the last Subscription; 0: it says nothing of it

	calls   sched.Group // of read
	reading sched.Int64 // when the call of read that runs began, in nanoseconds since began; 0: none
	hanging sched.Bool  // a call of read has outlived its context

	mu struct {
		sched.Mutex
		stood    bool                    // a source has subscribed at some time
		standing time.Time               // when the source stood first in this run; zero: it does not, or has not yet
		within   context.Context         // of the source's Run; nil: no source runs
		end      context.CancelCauseFunc // of within
		hearing  *hearing                // the source's subscription; nil: it cannot hear itself, or has not subscribed
		probe    uint64                  // the number of the last probe
		blind    string                  // of the last Subscription
		queue    Queued                  // the source, if it is one
		gaps     int64
		ends     int64
		err      error // of the source, when it last ended
	}
}

// lastWords is how long Run waits at its end until its records have been logged: the program may end then.
const lastWords = 100 * time.Millisecond

// To returns a Runner that delivers hints to p, which is a purgatory or [Several] of them.
// Error: ErrInvalidOption.
func To[K comparable](p Waiters[K], opts ...Option) (*Runner[K], error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if isNil[K](p) {
		return nil, fmt.Errorf("%w: the purgatory is nil", ErrInvalidOption)
	}
	r := &Runner[K]{waiters: p, cfg: cfg, began: sched.Now(), asked: sched.NewToken(), probes: sched.NewToken()}
	r.repeats = newRepeats(cfg.lag, p.SignalUpTo, r.asked.Put)
	if cfg.resync != nil {
		read, ok := cfg.resync.(func(context.Context, []K) error)
		if !ok || read == nil {
			return nil, fmt.Errorf("%w: WithResync has %T, must have a %T", ErrInvalidOption, cfg.resync, r.read)
		}
		r.read = read
	}
	return r, nil
}

// Changed delivers a hint, and remembers the key for [WithLag]. It holds a lock of the
// purgatory and one of r for a moment.
func (r *Runner[K]) Changed(key K, position int64) {
	r.hints.Add(1)
	at := sched.Since(r.began)
	r.lastWord.Store(int64(at))
	if !r.waiters.SignalUpTo(key, position) {
		r.unawaited.Add(1)
	}
	r.repeats.add(key, reported{position, at})
}

// Saw says that a read of key has seen the state of this position. A read that follows a hint for a
// higher one is behind it: its replica, standby or cache has not got the change yet. [Stats] has how
// long after the hint that was at most, so that you can choose [WithLag]. Call Saw after each read
// of a wait, and for the keys of a bulk read, if the hints have positions. It takes a lock of r
// for a moment.
func (r *Runner[K]) Saw(key K, position int64) {
	at, behind := r.repeats.behind(key, position)
	if !behind {
		return
	}
	lag := int64(sched.Since(r.began) - at)
	for longest := r.lag.Load(); lag > longest; longest = r.lag.Load() {
		if !r.lag.CompareAndSwap(longest, lag) {
			continue
		}
		if allowed := int64(r.cfg.lag); lag >= allowed && longest < allowed {
			r.cfg.logger.Warn(EventLag, "lag", time.Duration(lag), "allowed", r.cfg.lag)
		}
		return
	}
}

// Missed makes a goroutine of Run re-check everything that waits, after a pause of [WithSpread],
// and returns at once. Several calls before that re-check begins cause only one. Further
// re-checks follow, as [WithLag] describes. Before Run, a call only asks for the first re-check. While
// no source runs, no call says that one stands.
func (r *Runner[K]) Missed(cause error) {
	defer r.asked.Put()
	r.gapped.Store(true)
	r.repeats.addAll()
	if !r.running.Load() {
		return
	}
	silent := sched.Since(r.began) - time.Duration(r.lastWord.Swap(int64(sched.Since(r.began))))
	r.mu.Lock()
	first, runs := !r.mu.stood, r.mu.within != nil
	if h := r.mu.hearing; h != nil && h.heard == 0 || first && !runs {
		r.mu.Unlock() // it does not stand yet
		return
	}
	r.mu.stood = true
	if runs && r.mu.standing.IsZero() {
		r.mu.standing = sched.Now()
	}
	if !first {
		r.mu.gaps++
	}
	r.mu.Unlock()
	if first {
		r.cfg.logger.Info(EventStanding)
	} else {
		r.cfg.logger.Warn(EventGap, "cause", cause, "silent", silent)
	}
}

// Run runs source, and restarts it with back-off whenever it ends. It returns when ctx
// ends, with the cause of ctx, or with the error of a source that is [ErrFinal]; by then all
// goroutines that it started have ended, but one that the logger's handler keeps for longer than 100 ms: so a function
// of [WithResync], or a Probe, that outlives its context holds up the end of Run. A Runner runs one source at a time; a second call
// meanwhile returns ErrRunning.
func (r *Runner[K]) Run(ctx context.Context, source Source[K]) error {
	if isNil[K](source) {
		return fmt.Errorf("%w: the source is nil", ErrInvalidOption)
	}
	if !r.running.CompareAndSwap(false, true) {
		return fmt.Errorf("%w: %q", ErrRunning, r.cfg.name)
	}
	defer r.running.Store(false)
	r.mu.Lock()
	r.mu.queue, _ = source.(Queued)
	r.mu.Unlock()
	within, stop := context.WithCancel(ctx)
	rechecker := rechecker[K]{r: r, pauses: backoff{first: r.cfg.minPause, longest: r.cfg.maxPause}}
	var going sched.Group
	r.keep(within, &going, rechecker.run)
	r.keep(within, &going, r.repeats.run)
	going.Go(func() { r.hearItself(within) })
	defer r.cfg.records.Wait(lastWords)
	defer r.calls.Wait()
	defer going.Wait()
	defer stop()
	pauses := backoff{first: r.cfg.minPause, longest: r.cfg.maxPause}
	for {
		stood, err := r.runOnce(within, source)
		if stood >= pauses.last {
			pauses.reset()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ErrFinal) {
			r.cfg.logger.Error(EventFinal, "error", err)
			return err
		}
		pause := pauses.next()
		r.cfg.logger.Warn(EventEnded, "error", err, "pause", pause)
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// keep has a goroutine of going run f, which returns when ctx has ended. If it panics or calls runtime.Goexit before, in a method of
// the user's Waiters or the function of [Part], f runs again after a pause, and everything is re-checked.
func (r *Runner[K]) keep(ctx context.Context, going *sched.Group, f func(ctx context.Context)) {
	going.Go(func() {
		returned := false
		defer func() {
			if returned {
				return
			}
			err := errExited
			if v := recover(); v != nil {
				err = &panicked{panicText(v), debug.Stack()}
			}
			r.cfg.logger.Warn(EventUnread, "error", err, "pause", r.cfg.maxPause)
			if sleep(ctx, r.cfg.maxPause) {
				r.keep(ctx, going, f)
				r.asked.Put()
			}
		}()
		f(ctx)
		returned = true
	})
}

// runOnce runs source until it ends. It returns how long the source was subscribed, 0 if it was
// not.
func (r *Runner[K]) runOnce(ctx context.Context, source Source[K]) (stood time.Duration, err error) {
	err = ErrEnded // also of a source that panics or calls runtime.Goexit
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.mu.Lock()
	r.mu.within, r.mu.end = within, end
	r.mu.Unlock()
	defer func() { stood = r.ended(ctx, err) }()
	if broken := source.Run(within, r); broken != nil {
		err = broken
	}
	if cause := context.Cause(within); ctx.Err() == nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err) // a source may return the error of its context
	}
	return stood, err
}

// ended records that the source has ended, and returns what runOnce does.
func (r *Runner[K]) ended(ctx context.Context, err error) (stood time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.standing.IsZero() {
		stood = sched.Since(r.mu.standing)
	}
	r.mu.standing = time.Time{}
	r.mu.hearing, r.mu.within, r.mu.end = nil, nil, nil
	r.mu.ends++
	if ctx.Err() == nil {
		r.mu.err = err
	}
	return stood
}
