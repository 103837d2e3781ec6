package signals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// firstProbe is the pause after the first probe of a subscription.
const firstProbe = 100 * time.Millisecond

// hearing is a subscription that hears itself. The Runner's lock guards it.
//
//  1. The source subscribes, and calls Subscribed: it does not stand.
//  2. The Runner sends probes. An answer to one of them shows that hints sent after it arrive, too.
//  3. The first answer makes the source stand, and asks for a re-check, which sees the changes whose
//     hints were sent before. So no change is between the two.
//  4. When the last answer is older than the limit, the source does not stand, and its context ends.
//     Run subscribes again, which begins at 1.
//
// Probes are numbered through the life of a Runner, so that a late answer to one of an earlier
// subscription is none.
type hearing struct {
	Subscription
	within context.Context         // of its probes
	leave  context.CancelFunc      // of within
	end    context.CancelCauseFunc // of the context of Source.Run

	first, heard uint64        // the number of the first probe, and of the last that came back; 0: none
	since        time.Time     // when that was, or when the source has subscribed
	next         time.Time     // when the next probe is due
	pause        time.Duration // after the last one
	over         bool          // the context of Source.Run has been ended
}

// deafLocked reports whether the last answer is too old.
func (h *hearing) deafLocked() bool { return h.over || sched.Since(h.since) >= h.Limit }

// Subscribed implements Sink.
func (r *Runner[K]) Subscribed(s Subscription) {
	defer r.probes.Put()
	now := sched.Now()
	r.mu.Lock()
	if r.mu.within == nil { // no source runs
		r.mu.Unlock()
		return
	}
	if s.Probe == nil || s.Every <= 0 || s.Limit <= s.Every {
		r.mu.end(fmt.Errorf("%w: its Subscription has no Probe, or probes every %v with a limit of %v, which must be longer", ErrFinal, s.Every, s.Limit))
		r.mu.Unlock()
		return
	}
	r.mu.standing = time.Time{}
	if before := r.mu.hearing; before != nil {
		before.leave()
	}
	within, leave := context.WithCancel(r.mu.within)
	r.mu.hearing = &hearing{
		Subscription: s, within: within, leave: leave, end: r.mu.end,
		first: r.mu.probe + 1, since: now, next: now, pause: firstProbe / 2,
	}
	r.longestAudit.Store(int64(s.Audit))
	said := r.mu.blind == s.Blind
	r.mu.blind = s.Blind
	r.mu.Unlock()
	if !said && s.Blind != "" {
		r.cfg.logger.Warn(EventBlind, "to", s.Blind)
	}
}

// Heard implements Sink.
func (r *Runner[K]) Heard(probe uint64) {
	r.mu.Lock()
	h := r.mu.hearing
	if h == nil || probe < h.first || probe <= h.heard || probe > r.mu.probe {
		r.mu.Unlock()
		return
	}
	began := h.heard == 0
	h.heard, h.since = probe, sched.Now()
	if began {
		h.next = h.since.Add(h.Every)
		r.mu.standing = h.since
	}
	r.mu.Unlock()
	if began {
		r.Missed(ErrSubscribed)
	} else {
		r.lastWord.Store(int64(sched.Since(r.began)))
	}
}

// hearItself sends the probes of the source's subscriptions until ctx ends.
func (r *Runner[K]) hearItself(ctx context.Context) {
	for wait := time.Duration(never); sched.Sleep(wait, r.probes, ctx.Done(), nil) != sched.Stopped; {
		wait = r.probeOnce()
	}
}

// probeOnce sends a probe if one is due, and ends a source that is deaf. It returns how long there is
// nothing more to do.
func (r *Runner[K]) probeOnce() (wait time.Duration) {
	r.mu.Lock()
	h := r.mu.hearing
	if h == nil || h.over {
		r.mu.Unlock()
		return never
	}
	now := sched.Now()
	left := h.Limit - now.Sub(h.since)
	if left <= 0 {
		h.over = true
		r.mu.Unlock()
		h.end(h.deaf(nil))
		return never
	}
	if wait = h.next.Sub(now); wait > 0 {
		r.mu.Unlock()
		return min(wait, left)
	}
	r.mu.probe++
	n := r.mu.probe
	h.pause = min(2*h.pause, h.Every)
	if h.heard > 0 {
		h.pause = h.Every
	}
	h.next = now.Add(h.pause)
	r.mu.Unlock()
	within, cancel := sched.WithTimeout(h.within, left)
	defer cancel()
	done, err := r.apart(func() error { return h.Probe(within, n) })
	sched.Receive(done)
	if err := *err; err != nil {
		r.mu.Lock()
		stands := r.mu.hearing == h // otherwise it says nothing of the subscription that stands now
		h.over = true
		r.mu.Unlock()
		if stands {
			h.end(h.deaf(err))
		}
	}
	return 0
}

// deaf returns the error with which a deaf source ends. Cause is why no probe could be sent, if that is why.
func (h *hearing) deaf(cause error) error {
	switch {
	case cause == nil:
		return fmt.Errorf("%w: no probe has come back for %v", ErrDeaf, h.Limit)
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: no probe could be sent for %v: %w", ErrDeaf, h.Limit, cause)
	default:
		return fmt.Errorf("%w: %w", ErrDeaf, cause)
	}
}
