package debug

import (
	"fmt"
	"math"
	"slices"
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
	dueTicks      = 20                     // that an expired operation waits for a worker,
	dueLimit      = 50 * time.Millisecond  // and no less than this
	dueMany       = 64                     // that wait, since whenever
	lateLimit     = 100 * time.Millisecond // a tick is 1 ms; a tenth of a second is no scheduling hiccup
	fewLate       = 5                      // before they are more than a hiccup
	latePercent   = 1
	fewExpiries   = 3 // of a key, before their only cause is remarkable
	fullPercent   = 80
	wastedPercent = 90
	fewChecks     = 1000 // before their waste is remarkable
	fewPending    = 100  // before their growth is
	growthSpan    = time.Minute
	maxNamed      = 5 // keys in a note
)

// notebook collects the notes of one purgatory.
type notebook struct {
	n   *purgatory.Stats
	w   *window
	in  *purgatory.Inspection
	all []Note
}

// notes says what is remarkable about a purgatory, now and over the window: the worst first.
func notes(n *purgatory.Stats, w *window, in *purgatory.Inspection) []Note {
	b := notebook{n: n, w: w, in: in, all: []Note{}}
	b.stuck()
	b.late()
	b.refused()
	b.vain()
	b.growth()
	return b.sorted()
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

func (w *window) name() string {
	switch {
	case w.length == 0:
		return "since start"
	case w.length < 2*time.Minute:
		return fmt.Sprintf("in the last %.0f s", w.length.Seconds())
	}
	return fmt.Sprintf("in the last %v min", math.Round(10*w.length.Minutes())/10)
}

// stuck looks at what runs and waits now. What has not ended is in no histogram.
func (b *notebook) stuck() {
	if b.n.OldestRunning > stuckLimit {
		b.trouble("%s, one for %s: it blocks a worker, or the goroutine that called the purgatory",
			count(b.n.Running, "callback runs", "callbacks run"), seconds(b.n.OldestRunning.Seconds()))
	}
	if b.w.running > 0 && !b.n.CallbacksTimed && b.w.length > growthSpan && b.w.ended == [operation.NumOutcomes]int64{} {
		b.trouble("%s at every look %s, and nothing ended: do they block? WithSlowCallback measures for how long",
			count(b.w.running, "callback ran", "callbacks ran"), b.span())
	}
	limit, bound := max(dueTicks*b.in.Wheels.Tick, dueLimit), atLeast(dueCapped(b.n))
	switch waits := bound + count(b.n.Due, "expired operation waits", "expired operations wait"); {
	case b.n.Due > 0 && b.n.OldestDue > limit:
		b.trouble("%s for a free worker, one for %s: callbacks that block, or too few workers?", waits, bound+seconds(b.n.OldestDue.Seconds()))
	case b.n.Due > dueMany:
		b.trouble("%s for a free worker", waits)
	}
	if b.w.slowCallbacks > 0 {
		b.look("%s %s took longer than WithSlowCallback allows: see the log", count(b.w.slowCallbacks, "callback", "callbacks"), b.span())
	}
	if b.w.panics > 0 {
		b.lately("%s in operations' methods %s, see the log", count(b.w.panics, "panic", "panics"), b.span())
	}
}

func (b *notebook) late() {
	var late, all int64
	for i, c := range b.w.late.Counts {
		all += c
		if i > 0 && b.w.late.Bound(i-1) >= lateLimit {
			late += c
		}
	}
	if late >= fewLate && 100*late > latePercent*all {
		p99 := b.w.late.Quantile(0.99)
		bound := fmt.Sprintf("≤ %s", seconds(p99.Seconds()))
		if p99 == math.MaxInt64 {
			bound = fmt.Sprintf("> %s", seconds(b.w.late.Bound(purgatory.HistogramBuckets-2).Seconds()))
		}
		b.lately("timeouts were late %s: %d of %d by more than 0.1 s, p99 lateness %s. Stalled process, or callbacks that block the workers?", b.span(), late, all, bound)
	}
	if b.w.stalls > 0 {
		b.look("the reaper stalled %s %s: does the process get the CPU?", count(b.w.stalls, "time", "times"), b.span())
	}
}

func (b *notebook) refused() {
	most := b.n.MaxPending
	if b.w.rejectedFull > 0 {
		b.lately("full: %s refused %s, WithMaxPending is %d", count(b.w.rejectedFull, "operation was", "operations were"), b.span(), most)
	} else if full := 100 * float64(b.n.Pending) / float64(most); most > 0 && full > fullPercent {
		b.look("%.0f %% full: %s, WithMaxPending is %d", math.Floor(full), count(b.n.Pending, "operation waits", "operations wait"), most)
	}
	if other := b.w.rejected - b.w.rejectedFull; other > 0 && b.w.length > 0 {
		b.look("%s refused %s: closed, or submitted wrongly; the error says why", count(other, "operation was", "operations were"), b.span())
	}
}

// vain looks for what is woken never, or for nothing.
func (b *notebook) vain() {
	if neverChecked(b.n) {
		b.trouble("%s, none was satisfied, and no check was ever made: does anybody call CheckAndComplete or Signal?",
			count(b.n.Expired, "operation has expired", "operations have expired"))
	} else if n := suspects(b.in.Expiring); n > 0 && b.w.ended[operation.Expired] > 0 {
		b.trouble("%d of the keys shown ended only by timeout: does anybody call CheckAndComplete for such a key?", n)
	}
	if b.w.checks > fewChecks && 100*b.w.wasted > wastedPercent*b.w.checks {
		b.look("%d %% of the checks %s found nothing to do: try CheckAndCompleteUpTo for positions, CheckAndCompleteInOrder for "+
			"one of many (a semaphore, a queue), or narrower keys", 100*b.w.wasted/b.w.checks, b.span())
	}
}

// neverChecked reports whether operations only ever expire, unless their callers cancel them: nobody has checked a key, or
// forced an operation.
func neverChecked(n *purgatory.Stats) bool {
	return n.Expired > 0 && n.Satisfied == 0 && n.Forced == 0 && n.Checks == 0 && n.Signals == 0
}

func (b *notebook) growth() {
	w := b.w
	if w.length > growthSpan && w.pendingAt > fewPending && w.pendingAt > 2*w.pendingBefore && w.pendingAt > w.pendingHalfway {
		b.look("pending has grown from %d to %d %s. For produces that is trouble, for fetches it may be load", w.pendingBefore, w.pendingAt, b.span())
	}
}

func suspects(keys []purgatory.KeyReport) (n int64) {
	for i := range keys {
		if keys[i].OnlyTimeouts() && keys[i].Ended[operation.Expired] >= fewExpiries {
			n++
		}
	}
	return n
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
