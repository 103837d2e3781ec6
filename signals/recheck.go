package signals

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// batch is the maximum number of keys of a bulk read.
const batch = 1000

// recheckWhenAsked re-checks after each Missed, and at the audit's intervals, until ctx
// ends. It runs on its own goroutine, because a source must not wait for a bulk read.
func (r *Runner[K]) recheckWhenAsked(ctx context.Context) {
	var audit <-chan time.Time
	longest := time.Duration(math.MaxInt64 / 2) // some 146 years, so that the sum does not overflow
	every := min(r.cfg.audit, longest)
	interval := func() time.Duration { return every - every/10 + rand.N(every/5+1) }
	var timer *time.Timer
	if r.cfg.audit > 0 {
		timer = time.NewTimer(interval())
		defer timer.Stop()
		audit = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.asked:
		case <-audit:
			r.audits.Add(1)
			timer.Reset(interval())
		}
		r.recheck(ctx)
	}
}

// recheck calls the function of WithResync, if there is one, and then signals every key. A
// gap meanwhile causes another re-check, because what was read may be too old.
func (r *Runner[K]) recheck(ctx context.Context) {
	began := time.Now()
	keys, reads := 0, 0
	pauses := backoff{first: r.cfg.minPause, longest: r.cfg.maxPause}
	for r.read != nil {
		n, m, err := r.readAll(ctx)
		keys, reads = keys+n, reads+m
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		r.failed.Add(1)
		pause := pauses.next()
		r.cfg.logger.Warn(EventUnread, "error", err, "pause", pause)
		if !sleep(ctx, pause) {
			return
		}
	}
	r.waiters.SignalAll()
	r.rechecks.Add(1)
	r.cfg.logger.Debug(EventRechecked, "keys", keys, "reads", reads, "elapsed", time.Since(began))
}

// readAll passes the keys that are waited for to the function of WithResync, in batches.
func (r *Runner[K]) readAll(ctx context.Context) (keys, reads int, err error) {
	var some []K
	read := func() error {
		keys, reads = keys+len(some), reads+1
		r.reads.Add(1)
		err := r.read(ctx, some)
		some = nil // the function may keep the slice
		return err
	}
	for key := range r.waiters.Keys() {
		if some = append(some, key); len(some) == batch {
			if err := read(); err != nil {
				return keys, reads, err
			}
		}
	}
	if len(some) > 0 {
		err = read()
	}
	return keys, reads, err
}
