package signals

import (
	"context"
	"math"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

const (
	// Without WithAudit, audits re-check about auditRate keys a second, at intervals from
	// shortestAudit to longestAudit.
	auditRate                   = 1000
	shortestAudit, longestAudit = 5 * time.Second, time.Minute

	// Without WithSpread, the re-check after a gap is put off by up to spreadEach for each batch of keys, at
	// most longestSpread.
	spreadEach, longestSpread = 100 * time.Millisecond, 5 * time.Second

	// After a re-check the next one waits for restFactor times as long as the first one took,
	// but at most for longestRest: re-checks that cause each other leave time for the hints.
	// What is measured, marking the keys, is about a third of the work.
	restFactor, longestRest = 9, 5 * time.Second

	never = math.MaxInt64 / 2 // some 146 years, so that sums do not overflow
)

// rechecker re-checks after each Missed, at the audit's intervals, and after bulk reads that
// have failed. It has a goroutine of its own, because a source must not wait for a bulk read.
type rechecker[K comparable] struct {
	r      *Runner[K]
	unread []K // the keys that the function of WithResync has not been able to read
	pauses backoff
	retry  time.Time // when it reads them again; zero: not at all
}

func (c *rechecker[K]) run(ctx context.Context) {
	audit := sched.Now().Add(c.r.auditInterval(0))
	for {
		until := audit
		again := !c.retry.IsZero() && c.retry.Before(audit)
		if again {
			until = c.retry
		}
		woken := sched.Sleep(-sched.Since(until), c.r.asked, ctx.Done(), nil)
		if woken == sched.Stopped {
			return
		}
		if c.r.gapped.Swap(false) {
			if !c.gap(ctx) {
				return
			}
			c.r.gapped.Store(false) // the re-check is also for the calls of Missed during the pause
			sched.Sleep(0, c.r.asked, nil, nil)
			woken = sched.Taken
		}
		began := sched.Now()
		if woken == sched.Elapsed && again {
			c.readAgain(ctx)
		} else {
			if woken == sched.Elapsed {
				c.r.audits.Add(1)
			}
			n := c.all(ctx)
			audit = sched.Now().Add(c.r.auditInterval(n))
		}
		if !sleep(ctx, min(restFactor*sched.Since(began), longestRest)) {
			return
		}
	}
}

// gap puts off the re-check after a gap, so that processes that have it at the same time do not read at
// the same time. It reports whether ctx still lasts.
func (c *rechecker[K]) gap(ctx context.Context) bool {
	longest := c.r.cfg.spread
	if c.r.cfg.spreadByCost {
		n := 0
		for range c.r.waiters.Keys() {
			n++
		}
		longest = min(time.Duration(n/batch)*spreadEach, longestSpread)
	}
	return longest == 0 || sleep(ctx, time.Duration(sched.Dice(int64(longest))))
}

// auditInterval returns the time until the next audit of n keys. Without audits it is some
// 146 years.
func (r *Runner[K]) auditInterval(n int) time.Duration {
	every := min(r.cfg.audit, never)
	if r.cfg.auditByCost {
		longest := longestAudit
		if asked := time.Duration(r.longestAudit.Load()); asked > 0 {
			longest = min(longest, asked)
		}
		every = min(max(time.Duration(n)*(time.Second/auditRate), shortestAudit), longest)
	}
	if every == 0 || every == never {
		return never
	}
	return every - time.Duration(sched.Dice(int64(every/2+1)))
}

// all reads all keys in bulk, if there is a function of WithResync, and signals them. It
// returns how many there are.
func (c *rechecker[K]) all(ctx context.Context) (n int) {
	c.unread = nil
	c.pauses.reset()
	c.retry = time.Time{}
	p := pass{began: sched.Now()}
	var some []K
	for key := range c.r.waiters.Keys() {
		if c.r.read == nil {
			c.r.waiters.SignalUpTo(key, Unknown)
			p.keys++
			continue
		}
		if some = append(some, key); len(some) == batch {
			c.readAndSignal(ctx, &p, some)
			some = some[:0]
		}
	}
	if len(some) > 0 {
		c.readAndSignal(ctx, &p, some)
	}
	c.finish(ctx, &p)
	return p.keys
}

// readAgain reads the unread keys, and signals those that it could read.
func (c *rechecker[K]) readAgain(ctx context.Context) {
	p, keys := pass{began: sched.Now()}, c.unread
	c.unread, c.retry = nil, time.Time{}
	for len(keys) > 0 {
		n := min(batch, len(keys))
		c.readAndSignal(ctx, &p, keys[:n])
		keys = keys[n:]
	}
	c.finish(ctx, &p)
}

// pass is one pass over keys.
type pass struct {
	began       time.Time
	keys, reads int
	err         error // of the last bulk read that failed
}

// readAndSignal reads at most a batch of keys, and signals those that were read. While an
// earlier call hangs it signals all of them, because waits may read for themselves.
func (c *rechecker[K]) readAndSignal(ctx context.Context, p *pass, keys []K) {
	p.keys, p.reads = p.keys+len(keys), p.reads+1
	unread, err := c.r.readKeys(ctx, keys)
	if err != nil {
		p.err = err
	}
	if c.r.hanging.Load() {
		unread = nil
	}
	c.unread = append(c.unread, unread...)
	left := make(map[K]bool, len(unread))
	for _, key := range unread {
		left[key] = true
	}
	for _, key := range keys {
		if !left[key] {
			c.r.waiters.SignalUpTo(key, Unknown)
		}
	}
}

// finish counts and logs a pass, and plans the next one if there are unread keys.
func (c *rechecker[K]) finish(ctx context.Context, p *pass) {
	if ctx.Err() != nil {
		return
	}
	if p.err != nil {
		pause := c.pauses.next()
		c.r.cfg.logger.Warn(EventUnread, "error", p.err, "keys", len(c.unread), "pause", pause)
		if len(c.unread) > 0 {
			c.retry = sched.Now().Add(pause)
		}
	}
	if len(c.unread) == 0 {
		c.r.rechecks.Add(1)
		c.r.cfg.logger.Debug(EventRechecked, "keys", p.keys, "reads", p.reads, "elapsed", sched.Since(p.began))
	}
}
