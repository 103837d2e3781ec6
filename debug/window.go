package debug

import (
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// window is what has happened to a purgatory lately.
type window struct {
	// length is how long the samples cover: four minutes at most. It is 0 while they cover less than
	// minWindow: then the window begins with the purgatory.
	length time.Duration

	ended                                    [operation.NumOutcomes]int64
	rejected, rejectedFull                   int64
	checks, wasted                           int64
	panics, slowCallbacks, stalls            int64
	late                                     purgatory.Histogram
	pendingBefore, pendingHalfway, pendingAt int64
}

// minWindow is how long the page has to have watched before it judges by what it saw.
const minWindow = 10 * time.Second

// windowOf returns what has happened between the first of samples and now.
func windowOf(samples []sample, n *purgatory.Stats, now time.Time) window {
	var before purgatory.Stats
	w := window{pendingAt: n.Pending, pendingBefore: n.Pending, pendingHalfway: n.Pending}
	if len(samples) > 0 && now.Sub(samples[0].at) >= minWindow {
		before = samples[0].stats
		w.length = now.Sub(samples[0].at)
		w.pendingBefore, w.pendingHalfway = before.Pending, samples[len(samples)/2].stats.Pending
	}
	for o := range w.ended {
		w.ended[o] = n.Ended(operation.Outcome(o)) - before.Ended(operation.Outcome(o))
	}
	w.rejected, w.rejectedFull = n.Rejected-before.Rejected, n.RejectedFull-before.RejectedFull
	w.checks, w.wasted = n.Checks-before.Checks, n.WastedChecks-before.WastedChecks
	w.panics, w.slowCallbacks, w.stalls = n.Panics-before.Panics, n.SlowCallbacks-before.SlowCallbacks, n.ReaperStalls-before.ReaperStalls
	w.late = n.Late.Since(&before.Late)
	return w
}

// rates is what happens per second, over the last seconds.
type rates struct{ accepted, ended, expired, checks float64 }

const rateSpan = 4 * time.Second

// ratesOf returns the rates between the last sample and one that is rateSpan older, or the oldest. It reports whether
// there are two samples.
func ratesOf(samples []sample) (r rates, known bool) {
	if len(samples) < 2 {
		return r, false
	}
	last := &samples[len(samples)-1]
	first := &samples[0]
	for i := range samples {
		if last.at.Sub(samples[i].at) < rateSpan {
			break
		}
		first = &samples[i]
	}
	perSecond := func(of func(*purgatory.Stats) int64) float64 { return rate(first, last, of) }
	return rates{
		accepted: perSecond(func(n *purgatory.Stats) int64 { return n.Accepted }),
		ended:    perSecond(func(n *purgatory.Stats) int64 { return n.Accepted - n.Pending }),
		expired:  perSecond(func(n *purgatory.Stats) int64 { return n.Expired }),
		checks:   perSecond(func(n *purgatory.Stats) int64 { return n.Checks }),
	}, true
}

// rate returns by how much a counter grows per second from one sample to another.
func rate(from, to *sample, of func(*purgatory.Stats) int64) float64 {
	elapsed := to.at.Sub(from.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return max(0, float64(of(&to.stats)-of(&from.stats))/elapsed)
}
