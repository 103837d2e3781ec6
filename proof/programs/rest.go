package programs

import (
	"errors"
	"slices"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// judge checks what must hold when no goroutine of the program can go on: all have ended, or
// wait in Await. Until it returns, nothing has swept or purged.
func (w *world) judge() {
	w.mu.Lock()
	w.resting = true
	w.mu.Unlock()
	for w.manual != nil && w.manual.AdvanceClock(0) { // expires what was due when it was registered, which may wake an Await
		w.settle()
	}
	stats := w.p.Stats() // takes every lock
	pending, unknown := 0, 0
	for _, o := range w.waiters {
		if o.waits {
			if o.gone {
				unknown++
			} else if o.judgeWait() {
				pending++
			}
			continue
		}
		o.judge()
		switch {
		case o.completed > 0 || len(o.begun) == 0 || o.abroad:
		case o.accepted:
			pending++
		case o.returned < len(o.begun):
			unknown++ // a Goexit has ended the goroutine that registered it
		}
	}
	if int(stats.Pending) < pending || int(stats.Pending) > pending+unknown {
		w.fault("%d pending, must be %d (and up to %d more)", stats.Pending, pending, unknown)
	}
	if (w.maxPending > 0 || w.none) && pending > w.maxPending {
		w.fault("%d pending, at most %d may be", pending, w.maxPending)
	}
	timed := int(stats.Pending)
	if w.abroad != nil {
		timed += w.abroad.NumDelayed()
	}
	if n := w.clock.Pending(); n > timed {
		w.fault("%d are in the timer, and %d are pending", n, timed)
	}
	if stats.Stale != 0 {
		w.fault("%d watches of ended operations are left at rest, and nothing has purged", stats.Stale)
	}
	if stats.Running != 0 {
		w.fault("%d goroutines run operations' methods at rest", stats.Running)
	}
	w.judgeFigures()
	w.judgeKeys()
	w.judgeAbroad()
}

// finish lets all timeouts pass, and closes.
func (w *world) finish() {
	for range w.waiters { // whose wait has ended may begin the next one
		w.advanceAll()
	}
	for _, o := range w.waiters {
		if ended := o.completed > 0; !ended && o.passes() && (o.accepted || o.waits && len(o.begun) > 0 && !o.gone) {
			w.fault("o%d: all timeouts have passed, and it is still pending", o.id)
		}
	}
	w.p.AdvanceClock(0) // purges
	if s := w.p.Stats(); s.Stale != 0 {
		w.fault("%d stale watches after a purge", s.Stale)
	}
	w.close()
	if err := w.p.Close(); err != nil {
		w.fault("close: %v", err)
	}
	w.closeAbroad()
	if w.system != nil {
		w.system.Stop()
	}
}

// longest is longer than any timeout of an operation.
const longest = 100 * time.Second

// atRest checks what must hold when all goroutines have ended, after judge and end.
func (w *world) atRest() error {
	if w.manual != nil {
		w.p.AdvanceClock(0)
	}
	w.settle()
	w.afterClose()
	return errors.Join(w.faults...)
}

// judge checks an operation at rest.
func (o *waiter) judge() {
	w := o.w
	outcome := o.Outcome()
	if (o.completed == 1) != (outcome != operation.Pending) || o.completed > 1 {
		o.fault("%d OnComplete, and the outcome is %v", o.completed, outcome)
	}
	if (o.expired == 1) != (outcome == operation.Expired) || o.expired > 1 {
		o.fault("%d OnExpiration, and the outcome is %v", o.expired, outcome)
	}
	if o.trying || o.calling {
		o.fault("a method runs at rest")
	}
	if outcome == operation.Expired && o.doneTime < o.minimum {
		o.fault("expired at %v, not allowed before %v", o.doneTime, o.minimum)
	}
	for _, f := range o.full {
		o.judgeFull(f[0], f[1])
	}
	if o.abroad && o.atHome {
		o.fault("it is an operation of the second purgatory, and the first one has changed it")
	}
	if o.completed > 0 || !o.accepted {
		if o.completed > 0 && !o.accepted && o.returned == len(o.begun) {
			o.fault("not accepted, yet it has ended as %v", outcome)
		}
		return
	}
	if o.mustEnd {
		o.fault("forced or cancelled, and still pending")
	}
	if w.closing && !o.abroad {
		o.fault("closed, and still pending")
	}
	if now := w.clock.Now(); now-w.late() >= o.maximum {
		o.fault("must have expired at %v, it is %v", o.maximum, now)
	}
	if o.yes {
		o.fault("a try has returned true, and it is still pending")
	}
	o.judgeWakeUp()
}

// judgeWakeUp checks that a pending operation has not lost a wake-up.
func (o *waiter) judgeWakeUp() {
	w := o.w
	if since := o.since(); since > 0 {
		since = max(since, o.failed) // the try that would have seen it may have panicked
		for _, k := range o.keys {
			if at := max(w.checked[k], w.reached[k][maxPosition]); !o.abroad && (at > since || w.reached[k][o.position] > since) {
				o.fault("lost wake-up: the condition is met since event %d, k%d was checked at event %d, and it is still pending",
					since, k, max(at, w.reached[k][o.position]))
			}
		}
		if o.begun[0] > since {
			o.fault("lost wake-up: the condition was met before the registration")
		}
	}
}

// since returns the event since which the condition is met, and 0 if it is not.
func (o *waiter) since() (since int) {
	w := o.w
	switch o.needs {
	case anyKey:
		for _, k := range o.keys {
			if at := w.raised[k]; at > 0 && (since == 0 || at < since) {
				since = at
			}
		}
	case allKeys:
		for _, k := range o.keys {
			if w.raised[k] == 0 {
				return 0
			}
			since = max(since, w.raised[k])
		}
	case item: // items only become fewer after the last one came
		for _, k := range o.keys {
			if w.items[k] > 0 && (since == 0 || w.put[k] < since) {
				since = w.put[k]
			}
		}
	}
	return since
}

// judgeFull checks a refusal with ErrFull between two events: at one of the events so many other
// operations held a place as there are, or may have held one. An operation holds none before
// its registration begins, nor when its OnComplete begins, nor if it is refused as full itself.
func (o *waiter) judgeFull(began, returned int) {
	w := o.w
	if w.none {
		return
	}
	most, ofKey := 0, 0 // of all, and of those that wait for o's first key
	for at := began; at <= returned; at++ {
		n, k := 0, 0
		for _, other := range w.waiters {
			if other != o && other.mayHold(at) {
				n++
				if slices.Contains(other.keys, o.keys[0]) {
					k++
				}
			}
		}
		most, ofKey = max(most, n), max(ofKey, k)
	}
	if (w.maxPending == 0 || most < w.maxPending) && (w.perKey == 0 || ofKey < w.perKey) {
		o.fault("refused as full between events %d and %d, and only %d other operations can have been pending, %d for its first key",
			began, returned, most, ofKey)
	}
}

// mayHold reports whether o can have held a place at an event.
func (o *waiter) mayHold(at int) bool {
	// A worker of the timer may have claimed the entry, and be about to give its place back.
	claimed := o.w.timerFull && o.doneTime >= o.minimum || o.w.kept // which says nothing when it gives the place back
	if len(o.begun) == 0 || at < o.begun[0] || o.completed > 0 && at > o.doneAt && !claimed {
		return false
	}
	if o.w.perKey > 0 && slices.ContainsFunc(o.full, func(f [2]int) bool { return f[0] <= at && at <= f[1] }) {
		return true // it takes a place of all before its key refuses it
	}
	return len(o.full) == 0 || slices.ContainsFunc(o.begun, func(began int) bool { // a registration that was not refused as full
		return !slices.ContainsFunc(o.full, func(f [2]int) bool { return f[0] == began }) && began <= at
	})
}

// afterClose checks that all have ended, and that nothing is left.
func (w *world) afterClose() {
	accepted, refused := 0, 0
	for _, o := range slices.Concat(w.waiters, w.crowded) {
		if o.waits {
			switch {
			case o.gone:
				refused++
			case o.returned < len(o.begun):
				o.fault("it waits after Close")
			case o.outcome != operation.Pending && !o.loose:
				accepted++
			case o.completed > 0: // satisfied by its first try, refused, or ended by Close
				refused++
			}
			continue
		}
		if o.accepted && o.completed != 1 {
			o.fault("%d OnComplete after Close", o.completed)
		}
		switch {
		case o.completed == 0 || o.abroad:
		case o.accepted || !o.travels:
			accepted++
		default: // by one of the two purgatories
			refused++
		}
	}
	s := w.p.Stats()
	if w.ended > accepted+refused {
		w.fault("the verbs say that they have ended %d operations, and %d have ended", w.ended, accepted)
	}
	if s.Pending != 0 || s.Watched != 0 || s.Keys != 0 || s.Stale != 0 || w.clock.Pending() != 0 {
		w.fault("left behind: %d pending, %d watched, %d keys, %d stale, %d timed", s.Pending, s.Watched, s.Keys, s.Stale, w.clock.Pending())
	}
	if ended := s.Satisfied + s.Forced + s.Expired + s.Cancelled + s.Closed; s.Accepted != ended || int(ended) < accepted || int(ended) > accepted+refused {
		w.fault("accepted %d, ended %d, seen to end %d", s.Accepted, ended, accepted)
	}
}
