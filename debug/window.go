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
	checks, wasted, passedOver               int64
	panics, slowCallbacks, stalls            int64
	late                                     purgatory.Histogram
	due                                      int64 // expired operations that wait for a worker now, and did a moment ago
	busy, longBusy                           int64 // callbacks that ran at every look of the last 20 s, and of the last minute: at least so many
	minute                                   minute
	pendingBefore, pendingHalfway, pendingAt int64
}

// minute is how operations have ended in the last minute, or in the window if that is shorter.
type minute struct {
	length         time.Duration // 0: since start
	ended, expired int64
}

func lastMinute(samples []sample[purgatory.Stats], n *purgatory.Stats, now time.Time) minute {
	for i := len(samples) - 1; i > 0; i-- {
		if now.Sub(samples[i].at) >= time.Minute {
			samples = samples[i:]
			break
		}
	}
	before, length := windowStart(samples, now)
	return minute{length, n.Accepted - n.Pending - (before.Accepted - before.Pending), n.Expired - before.Expired}
}

// minWindow is how long the page has to have watched before it judges by what it saw.
const minWindow = 10 * time.Second

// windowStart returns the first of samples and how long ago it was; if that is less than minWindow, the numbers with which
// every source begins, and 0.
func windowStart[N any](samples []sample[N], now time.Time) (before N, length time.Duration) {
	if len(samples) == 0 || now.Sub(samples[0].at) < minWindow {
		return before, 0
	}
	return samples[0].stats, now.Sub(samples[0].at)
}

// windowOf returns what has happened between the first of samples and now.
func windowOf(samples []sample[purgatory.Stats], n *purgatory.Stats, now time.Time) window {
	before, length := windowStart(samples, now)
	w := window{length: length, pendingAt: n.Pending, pendingBefore: n.Pending, pendingHalfway: n.Pending}
	if length > 0 {
		w.pendingBefore, w.pendingHalfway = before.Pending, samples[len(samples)/2].stats.Pending
	}
	for o := range w.ended {
		w.ended[o] = n.Ended(operation.Outcome(o)) - before.Ended(operation.Outcome(o))
	}
	w.rejected, w.rejectedFull = n.Rejected-before.Rejected, n.RejectedFull-before.RejectedFull
	w.checks, w.wasted = n.Checks-before.Checks, n.WastedChecks-before.WastedChecks
	w.passedOver = n.PassedOver - before.PassedOver
	w.panics, w.slowCallbacks, w.stalls = n.Panics-before.Panics, n.SlowCallbacks-before.SlowCallbacks, n.ReaperStalls-before.ReaperStalls
	w.late = n.Late.Since(&before.Late)
	for i := range samples {
		if now.Sub(samples[i].at) >= interval/2 {
			w.due = min(n.Due, samples[i].stats.Due)
		}
	}
	w.busy, w.longBusy = alwaysRunning(samples, n, now, busyTime), alwaysRunning(samples, n, now, time.Minute)
	w.minute = lastMinute(samples, n, now)
	return w
}

// alwaysRunning returns how many callbacks ran at least, now and at every look for that long; 0 if the page has looked less often.
func alwaysRunning(samples []sample[purgatory.Stats], n *purgatory.Stats, now time.Time, length time.Duration) int64 {
	first := len(samples) - int(length/interval)
	if first < 0 || now.Sub(samples[first].at) > length+length/4 {
		return 0
	}
	least := n.Running
	for i := range samples[first:] {
		least = min(least, samples[first+i].stats.Running)
	}
	return least
}

// rates is what happens per second, over the last seconds.
type rates struct{ accepted, ended, expired, checks float64 }

const (
	rateSpan = 4 * time.Second
	rateMost = 15 * time.Second // what lies further apart says nothing about the last seconds
)

// ratesOf returns the rates over the last seconds. It reports whether there are two samples.
func ratesOf(samples []sample[purgatory.Stats]) (r rates, known bool) {
	first, last := lastSeconds(samples)
	if first == nil {
		return r, false
	}
	perSecond := func(of func(*purgatory.Stats) int64) float64 { return rate(first, last, of) }
	return rates{
		accepted: perSecond(func(n *purgatory.Stats) int64 { return n.Accepted }),
		ended:    perSecond(func(n *purgatory.Stats) int64 { return n.Accepted - n.Pending }),
		expired:  perSecond(func(n *purgatory.Stats) int64 { return n.Expired }),
		checks:   perSecond(func(n *purgatory.Stats) int64 { return n.Checks }),
	}, true
}

// lastSeconds returns the last sample and one that is rateSpan older, or the oldest that is not older than rateMost; nil if there
// are not two of different moments.
func lastSeconds[N any](samples []sample[N]) (first, last *sample[N]) {
	if len(samples) == 0 {
		return nil, nil
	}
	last = &samples[len(samples)-1]
	for i := range samples {
		age := last.at.Sub(samples[i].at)
		if first != nil && age < rateSpan {
			break
		}
		if age <= rateMost {
			first = &samples[i]
		}
	}
	if !last.at.After(first.at) {
		return nil, nil
	}
	return first, last
}

// rate returns by how much a counter grows per second from one sample to another.
func rate[N any](from, to *sample[N], of func(*N) int64) float64 {
	elapsed := to.at.Sub(from.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return max(0, float64(of(&to.stats)-of(&from.stats))/elapsed)
}
