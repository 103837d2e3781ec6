package debug

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Note is something that deserves a look.
type Note struct {
	Level string `json:"level"` // "trouble" or "look"
	Text  string `json:"text"`
}

// States of a purgatory: the level of its worst note, or that it has none.
const (
	stateTrouble = "trouble"
	stateLook    = "look"
	stateOK      = "ok"
)

// When numbers deserve a note.
const (
	stuckLimit    = time.Second            // a callback must not block
	blockedLimit  = 3 * time.Second        // that callbacks run and none returns
	busyTime      = 20 * time.Second       // that ever so many run,
	busyMany      = 4                      // for each processor: a busy process has some that wait for a lock or a processor
	dueTicks      = 20                     // that an expired operation waits for a worker,
	dueLimit      = 50 * time.Millisecond  // and no less than this
	dueMany       = 64                     // that wait at two looks; at one, a crowd may have expired just then
	lateLimit     = 100 * time.Millisecond // a tick is 1 ms; a tenth of a second is no scheduling hiccup
	fewLate       = 5                      // before they are more than a hiccup
	latePercent   = 1
	fewExpiries   = 3  // of a key, before their only cause is remarkable
	fewExpired    = 5  // in a minute, before their share is
	expiredLook   = 1  // percent of what ends in a minute, where timeouts are not expected:
	expiredMany   = 10 // an expired request is an error to its client
	fewPassedOver = 100
	fullPercent   = 80
	wastedPercent = 90
	fewChecks     = 1000 // before their waste is remarkable
	fewPending    = 100  // before their growth is
	growthSpan    = time.Minute
	maxNamed      = 5 // keys in a note
)

// notebook collects the notes of one purgatory.
type notebook struct {
	n       *purgatory.Stats
	w       *window
	in      *purgatory.Inspection
	stalled bool // the process has, and the page says so
	all     []Note
}

// notes says what is remarkable about a purgatory, now and over the window: the worst first. What a stall of the process
// explains is left to the page's note about that, and what stuck callbacks explain is no trouble of its own.
func notes(n *purgatory.Stats, w *window, in *purgatory.Inspection, stalled bool) []Note {
	b := notebook{n: n, w: w, in: in, stalled: stalled, all: []Note{}}
	stuck := b.stuck()
	b.late()
	b.refused()
	b.expiries(stuck)
	b.vain()
	if !stuck {
		b.growth()
	}
	return b.sorted()
}

// pageNotes says what is remarkable about the process. Every reaper notices that it was stalled: that is one note, and not one for
// each purgatory. times is how often the reapers of the purgatories with these names have stalled.
func pageNotes(names []string, times int64, span string) []Note {
	if len(names) == 0 {
		return []Note{}
	}
	return []Note{{stateLook, fmt.Sprintf("the process stalled %s %s, and timeouts were late: the reapers of %s ran late. Does it get the CPU?",
		count(times, "time", "times"), span, listed(names))}}
}

// listed names up to maxNamed.
func listed(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// sorted returns the notes by severity, and those of one severity in the order in which they were made.
func (b *notebook) sorted() []Note {
	slices.SortStableFunc(b.all, func(x, y Note) int { return urgency(x.Level) - urgency(y.Level) })
	return b.all
}

// state returns the level of the first note, which is the worst.
func state(notes []Note) string {
	if len(notes) == 0 {
		return stateOK
	}
	return notes[0].Level
}

func (b *notebook) trouble(format string, args ...any) {
	b.all = append(b.all, Note{stateTrouble, fmt.Sprintf(format, args...)})
}

func (b *notebook) look(format string, args ...any) {
	b.all = append(b.all, Note{stateLook, fmt.Sprintf(format, args...)})
}

// lately is trouble if it happened while the page watched. What happened at some time since start is to be looked at.
func (b *notebook) lately(format string, args ...any) {
	if b.w.length == 0 {
		b.look(format, args...)
	} else {
		b.trouble(format, args...)
	}
}

// span names the window.
func (b *notebook) span() string { return b.w.name() }

func (w *window) name() string { return spanOf(w.length) }

func spanOf(length time.Duration) string {
	switch {
	case length == 0:
		return "since start"
	case length < 2*time.Minute:
		return fmt.Sprintf("in the last %.0f s", length.Seconds())
	}
	return fmt.Sprintf("in the last %v min", math.Round(10*length.Minutes())/10)
}

// stuck looks at what runs and waits now. What has not ended is in no histogram. It reports whether it has found trouble.
func (b *notebook) stuck() (found bool) {
	if b.n.OldestRunning > stuckLimit {
		b.trouble("%s, one for %s: it blocks a worker, or the goroutine that called the purgatory",
			count(b.n.Running, "callback runs", "callbacks run"), seconds(b.n.OldestRunning.Seconds()))
	}
	const profile = "A goroutine profile shows where, WithDiagnostics names it"
	switch procs := int64(runtime.GOMAXPROCS(0)); {
	case b.n.CallbacksTimed:
	case b.n.BlockedFor > blockedLimit:
		b.trouble("%s, and under some keys none has returned for %s: it blocks a worker, or the goroutine that called the purgatory. %s",
			count(b.n.Running, "callback runs", "callbacks run"), seconds(b.n.BlockedFor.Seconds()), profile)
	case b.w.busy > busyMany*procs: // BlockedFor does not see those that block beside others that return
		b.trouble("at every look in the last %.0f s at least %d callbacks ran, on %s: they block, or wait for a lock. %s",
			busyTime.Seconds(), b.w.busy, count(procs, "processor", "processors"), profile)
	case b.w.longBusy > 0:
		b.look("at every look in the last minute at least %s: does it block, or is the process that busy? %s", count(b.w.longBusy, "callback ran", "callbacks ran"), profile)
	}
	limit, bound := max(dueTicks*b.in.Tick, dueLimit), atLeast(dueCapped(b.n))
	switch waits := bound + count(b.n.Due, "expired operation waits", "expired operations wait"); {
	case b.n.Due > 0 && b.n.OldestDue > limit:
		b.trouble("%s for a free worker, one for %s: callbacks that block, or too few workers?", waits, bound+seconds(b.n.OldestDue.Seconds()))
	case b.w.due > dueMany:
		b.trouble("%s for a free worker", waits)
	}
	found = state(b.all) == stateTrouble
	if b.w.slowCallbacks > 0 {
		b.look("%s %s took longer than WithSlowCallback allows: see the log", count(b.w.slowCallbacks, "callback", "callbacks"), b.span())
	}
	if b.w.panics > 0 {
		b.lately("%s in operations' methods %s, see the log", count(b.w.panics, "panic", "panics"), b.span())
	}
	return found
}

func (b *notebook) late() {
	var late, all int64
	for i, c := range b.w.late.Counts {
		all += c
		if i > 0 && b.w.late.Bound(i-1) >= lateLimit {
			late += c
		}
	}
	if !b.stalled && late >= fewLate && 100*late > latePercent*all {
		p99 := b.w.late.Quantile(0.99)
		bound := fmt.Sprintf("≤ %s", seconds(p99.Seconds()))
		if p99 == math.MaxInt64 {
			bound = fmt.Sprintf("> %s", seconds(b.w.late.Bound(purgatory.HistogramBuckets-2).Seconds()))
		}
		b.lately("timeouts were late %s: %d of %d by more than 0.1 s, p99 lateness %s. Stalled process, or callbacks that block the workers?", b.span(), late, all, bound)
	}
}

func (b *notebook) refused() {
	most := b.n.MaxPending
	if b.w.rejectedFull > 0 && most == 0 {
		b.lately("full: %s refused %s, by WithMaxPendingPerKey, by the timer's maximum, or by a WithMaxPending of 0",
			count(b.w.rejectedFull, "operation was", "operations were"), b.span())
	} else if b.w.rejectedFull > 0 {
		b.lately("full: %s refused %s, WithMaxPending is %d", count(b.w.rejectedFull, "operation was", "operations were"), b.span(), most)
	} else if full := 100 * float64(b.n.Pending) / float64(most); most > 0 && full > fullPercent {
		b.look("%.0f %% full: %s, WithMaxPending is %d", math.Floor(full), count(b.n.Pending, "operation waits", "operations wait"), most)
	}
	if other := b.w.rejected - b.w.rejectedFull; other > 0 && b.w.length > 0 {
		b.look("%s refused %s: closed, or submitted wrongly; the error says why", count(other, "operation was", "operations were"), b.span())
	}
}

// expiries looks at how many operations expire, where that is not how they are meant to end. If callbacks are stuck, that may be why.
func (b *notebook) expiries(stuck bool) {
	if b.n.TimeoutsExpected {
		return
	}
	const normal = "If that is normal here, make the purgatory with WithTimeoutsExpected"
	m := &b.w.minute
	share := 0.0
	if m.expired >= fewExpired {
		share = 100 * float64(m.expired) / float64(m.ended)
	}
	said := fmt.Sprintf("%.0f %% of what ended %s has expired, %d of %d operations", math.Floor(share), spanOf(m.length), m.expired, m.ended)
	only := suspects(b.in.Expiring)
	switch {
	case stuck:
		if share >= expiredLook {
			b.look("%s", said)
		}
	case neverChecked(b.n):
		b.trouble("%s, none was satisfied, and no check was ever made of what they waited for: does anybody call CheckAndComplete or Signal? %s",
			count(b.n.Expired, "operation has expired", "operations have expired"), normal)
	case share >= expiredMany && len(only) > 0:
		b.lately("%s, all of %s among them: does anybody call CheckAndComplete for such a key? %s", said, listed(only), normal)
	case share >= expiredMany:
		b.lately("%s: is a CheckAndComplete missing, or made for another key, or does somebody hang who should change the state? %s", said, normal)
	case len(only) > 0 && b.w.ended[operation.Expired] > 0:
		b.trouble("all operations of %s ended by timeout: does anybody call CheckAndComplete for such a key? %s", listed(only), normal)
	case share >= expiredLook && m.length > 0:
		b.look("%s. %s", said, normal)
	}
}

// vain looks for what is woken never, or for nothing.
func (b *notebook) vain() {
	if b.w.passedOver > fewPassedOver && b.w.passedOver > b.w.ended[operation.Satisfied] {
		b.look("%s passed over %s, more than were satisfied: their clients had gone before it was their turn. Is the line longer than they are patient?",
			count(b.w.passedOver, "wait was", "waits were"), b.span())
	}
	if b.w.checks > fewChecks && 100*b.w.wasted > wastedPercent*b.w.checks {
		b.look("%d %% of the checks %s found nothing to do: try CheckAndCompleteUpTo for positions, CheckAndCompleteInOrder for "+
			"one of many (a semaphore, a queue), or narrower keys", 100*b.w.wasted/b.w.checks, b.span())
	}
}

// neverChecked reports whether operations only ever expire, unless their callers cancel them: nobody has checked a key, or
// forced an operation.
func neverChecked(n *purgatory.Stats) bool {
	return n.Expired > 0 && n.Satisfied == 0 && n.Forced == 0 && n.Checks == 0 && n.PassedOver == 0 && n.Signals == 0
}

func (b *notebook) growth() {
	w := b.w
	if !b.n.TimeoutsExpected && w.length > growthSpan && w.pendingAt > fewPending && w.pendingAt > 2*w.pendingBefore && w.pendingAt > w.pendingHalfway {
		b.look("pending has grown from %d to %d %s: do waits leak, or has somebody fallen behind who should end them?", w.pendingBefore, w.pendingAt, b.span())
	}
}

// suspects returns the keys whose operations ended only by timeout.
func suspects(keys []purgatory.KeyReport) (only []string) {
	for i := range keys {
		if keys[i].OnlyTimeouts() && keys[i].Ended[operation.Expired] >= fewExpiries {
			only = append(only, keys[i].Key)
		}
	}
	return only
}

// dueCapped reports whether Due and OldestDue may be too low: Stats looks at 128 entries of each of the timer's shards.
func dueCapped(n *purgatory.Stats) bool { return n.Due >= 128 }

// atLeast goes before a number that is a lower bound.
func atLeast(bound bool) string {
	if bound {
		return "≥ "
	}
	return ""
}

// count says how many there are of something.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
