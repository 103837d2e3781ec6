package debug

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Note is something that deserves a look.
type Note struct {
	Level string `json:"level"` // "trouble" or "look"
	Text  string `json:"text"`
}

// States of what is shown: the level of its worst note, or that it has none.
const (
	stateTrouble = "trouble"
	stateLook    = "look"
	stateOK      = "ok"
)

// When numbers deserve a note.
const (
	blockedLimit = 3 * time.Second
	dueLimit     = time.Second // that an expired operation waits for a worker
	fewUnchecked = 3           // in a minute; of fewer, their share must be remarkable
	fewExpired   = 5           // in a minute, before their share is remarkable:
	lookShare    = 0.01        // of what ends in a minute, where timeouts are not expected;
	troubleShare = 0.1         // an expired request is an error to its client
	fewGaveUp    = 20          // in a minute, before their share is remarkable:
	gaveUpShare  = 0.5
	fullShare    = 0.8
	fewPending   = 100 // before their growth is remarkable,
	manyPending  = 500 // and before a slow one is
	maxNamed     = 5   // keys in a note
)

// window is what a purgatory's numbers were. Length is 0, and the numbers are those of the beginning, if the page has not watched for
// long.
type window struct {
	length       time.Duration // four minutes
	before       purgatory.Stats
	minuteLength time.Duration
	minute       purgatory.Stats
	pending      [3]span // of each third of the window; empty if it is short
}

// span has the fewest and the most that waited at a time.
type span struct{ least, most int64 }

func windowOf(samples []sample[purgatory.Stats], now time.Time) *window {
	w := &window{}
	w.before, w.length = since(samples, now, history*interval)
	w.minute, w.minuteLength = since(samples, now, time.Minute)
	if w.length > time.Minute && len(samples) >= len(w.pending) { // a process that was stopped has fewer
		for i := range w.pending {
			third := samples[i*len(samples)/3 : (i+1)*len(samples)/3]
			by := func(a, b sample[purgatory.Stats]) int { return cmp.Compare(a.stats.Pending, b.stats.Pending) }
			w.pending[i] = span{slices.MinFunc(third, by).stats.Pending, slices.MaxFunc(third, by).stats.Pending}
		}
	}
	return w
}

// notebook collects the notes of a source.
type notebook struct {
	length time.Duration // of the time that they are about; 0: since start
	all    []Note
}

func (b *notebook) trouble(format string, args ...any) {
	b.all = append(b.all, Note{stateTrouble, fmt.Sprintf(format, args...)})
}

func (b *notebook) look(format string, args ...any) {
	b.all = append(b.all, Note{stateLook, fmt.Sprintf(format, args...)})
}

// lately is trouble if it happened while the page watched. What happened at some time since start is to be looked at.
func (b *notebook) lately(format string, args ...any) {
	if b.length == 0 {
		b.look(format, args...)
	} else {
		b.trouble(format, args...)
	}
}

// sorted returns the notes by severity, and those of one severity in the order in which they were made.
func (b *notebook) sorted() []Note {
	slices.SortStableFunc(b.all, func(x, y Note) int { return urgency(x.Level) - urgency(y.Level) })
	return append([]Note{}, b.all...)
}

func urgency(state string) int {
	return slices.Index([]string{stateTrouble, stateLook, stateOK}, state)
}

// state returns the level of the first note, which is the worst.
func state(notes []Note) string {
	if len(notes) == 0 {
		return stateOK
	}
	return notes[0].Level
}

// notes says what is remarkable about a purgatory: the worst first. What a blocked callback explains is no trouble of its own.
func notes(n *purgatory.Stats, in *purgatory.Inspection, w *window) []Note {
	b := notebook{length: w.length}
	blocked := b.blocked(n, in)
	span := spanOf(b.length)
	if panics := n.Panics - w.before.Panics; panics > 0 {
		b.lately("%s %s in operations' methods or other functions of yours: the log has the stacks", count(panics, "panic", "panics"), span)
	}
	busiest := ""
	if in.Waiting > 0 {
		busiest = fmt.Sprintf("; most wait for %s: %d of %d", in.Busiest, in.Waiting, n.Watched)
	}
	switch refused := n.RejectedFull - w.before.RejectedFull; {
	case refused > 0 && n.MaxPending == 0:
		b.lately("full: %s refused %s, by WithMaxPendingPerKey or by the timer's maximum%s", count(refused, "operation was", "operations were"), span, busiest)
	case refused > 0:
		b.lately("full: %s refused %s, WithMaxPending is %d%s", count(refused, "operation was", "operations were"), span, n.MaxPending, busiest)
	case n.MaxPending > 0 && float64(n.Pending) > fullShare*float64(n.MaxPending):
		b.look("%.0f %% full: %s, WithMaxPending is %d%s", math.Floor(100*float64(n.Pending)/float64(n.MaxPending)),
			count(n.Pending, "operation waits", "operations wait"), n.MaxPending, busiest)
	}
	if other := n.Rejected - n.RejectedFull - w.before.Rejected + w.before.RejectedFull; other > 0 && w.length > 0 {
		b.look("%s refused %s: closed, or submitted wrongly; the error says why", count(other, "operation was", "operations were"), span)
	}
	if !n.TimeoutsExpected {
		b.expiries(n, in, w, blocked)
		b.gaveUp(n.GaveUp-w.minute.GaveUp, ended(n)-ended(&w.minute), w.minuteLength)
		if !blocked && w.rises() {
			b.look("pending has grown from %d to %d %s: do waits leak, or has somebody fallen behind who should end them?",
				w.pending[0].least, w.pending[2].most, span)
		}
	}
	return b.sorted()
}

func ended(n *purgatory.Stats) int64 { return n.Accepted - n.Pending }

// blocked looks at what runs and waits now. It reports whether it has found what holds up others.
func (b *notebook) blocked(n *purgatory.Stats, in *purgatory.Inspection) (found bool) {
	const profile = "it blocks a worker, or the goroutine that called the purgatory, and whoever waits for it. A goroutine profile shows where"
	if n.BlockedFor > blockedLimit && len(in.Blocked) > 0 {
		one := &in.Blocked[0]
		b.trouble("a method of %s, key %s, has been running for %s: %s", one.Type, one.Key, seconds(one.Age), profile)
	} else if n.BlockedFor > blockedLimit {
		b.trouble("a callback has been running for %s: %s", seconds(n.BlockedFor), profile)
	}
	if n.OldestDue > dueLimit {
		b.trouble("%s for a free worker, one for %s: callbacks that block, or too few workers (WithWorkers)",
			count(n.Due, "expired operation waits", "expired operations wait"), seconds(n.OldestDue))
	}
	return len(b.all) > 0
}

// expiries looks at operations that expired, where that is not how they are meant to end: those that no check had come to, and those
// whose condition no check had found to be true.
func (b *notebook) expiries(n *purgatory.Stats, in *purgatory.Inspection, w *window, blocked bool) {
	const normal = "If that is normal here, make the purgatory with WithTimeoutsExpected"
	all, span := ended(n)-ended(&w.minute), spanOf(w.minuteLength)
	unchecked := n.Unchecked - w.minute.Unchecked
	checked := n.Expired - w.minute.Expired - unchecked
	share := func(part int64) float64 { return float64(part) / float64(max(all, 1)) }
	watched := w.minuteLength > 0
	note := b.look
	if blocked {
		if unchecked+checked >= fewExpired {
			b.look("%s %s: the blocked callbacks may be why", count(unchecked+checked, "operation has expired", "operations have expired"), span)
		}
		return
	}
	many := unchecked >= fewUnchecked
	if share(unchecked) >= troubleShare || watched && many {
		note = b.trouble
	}
	if share(unchecked) >= troubleShare || many && (watched || share(unchecked) >= lookShare) {
		note("%s %s, and nobody had checked %s since they were registered: is a CheckAndComplete missing, or made for another key? %s",
			count(unchecked, "operation has expired", "operations have expired"), span, keysOf(in.Unchecked, unchecked, "their keys", false), normal)
	}
	checks := ""
	if all := keysOf(in.NeverTrue, checked, "", true); all != "" {
		checks = ": " + all
	}
	if note = b.look; share(checked) >= troubleShare && watched {
		note = b.trouble
	}
	if checked >= fewExpired && share(checked) >= lookShare {
		note("%s %s, of %d that ended, and %s. Does somebody hang who should change the state, or is the condition wrong? %s",
			count(checked, "operation has expired", "operations have expired"), span, all, "their conditions were never true"+checks, normal)
	}
}

// keysOf names up to n keys of operations that expired, the latest first; other stands for them if none is known.
func keysOf(all []purgatory.ExpiryReport, n int64, other string, checks bool) string {
	var keys []string
	for _, e := range all[:min(int64(len(all)), n, maxNamed)] {
		if checks && e.Checks > 0 { // 0: nobody has waited for the key since
			keys = append(keys, fmt.Sprintf("%s (checked %s)", e.Key, count(e.Checks, "time", "times")))
		} else {
			keys = append(keys, e.Key)
		}
	}
	if len(keys) == 0 {
		return other
	}
	return strings.Join(keys, ", ")
}

// gaveUp looks at waits that their contexts have ended, of all that have ended in that time.
func (b *notebook) gaveUp(n, all int64, length time.Duration) {
	if share := float64(n) / float64(max(all, n, 1)); length > 0 && n >= fewGaveUp && share >= gaveUpShare {
		b.trouble("%.0f %% of the waits that ended %s were given up, %d of %d: their contexts ended. Is the wait longer than the clients are patient?",
			math.Floor(100*share), spanOf(length), n, max(all, n))
	}
}

// rises reports whether so many wait as a person would call a rise: between the first and the last third twice as many, or of many an eighth
// more if the page has watched for as long as it remembers. The fewest that wait become more in each third, and the most do at the end:
// peaks are no rise, nor is a step, or one that is over.
func (w *window) rises() bool {
	first, second, third := w.pending[0], w.pending[1], w.pending[2]
	step := (third.least - first.least) / 6
	return third.least > fewPending &&
		(third.least > 2*first.least || third.least > manyPending && third.least > first.least*9/8 && w.length > history*interval*7/8) &&
		second.least-first.least >= step && third.least-second.least >= step && third.most-second.most >= step
}

// stalls says what was late because the process stalled. Every reaper notices: that is one note, and not one for each purgatory.
type stalls struct {
	names   []string
	expired int64
}

// add counts what expired between two looks between which the reaper stalled.
func (s *stalls) add(name string, samples []sample[purgatory.Stats], n *purgatory.Stats) {
	late := int64(0)
	for i := range samples {
		next := n
		if i+1 < len(samples) {
			next = &samples[i+1].stats
		}
		if before := &samples[i].stats; next.ReaperStalls > before.ReaperStalls {
			late += next.Expired - before.Expired
		}
	}
	if late > 0 {
		s.names, s.expired = append(s.names, name), s.expired+late
	}
}

func (s *stalls) notes() []Note {
	if s.expired == 0 {
		return []Note{}
	}
	of := strings.Join(s.names[:min(len(s.names), maxNamed)], ", ")
	if more := len(s.names) - maxNamed; more > 0 {
		of += fmt.Sprintf(" and %d more", more)
	}
	return []Note{{stateLook, fmt.Sprintf("%s of %s late in the last minutes: the process stalled. Does it get the CPU?",
		count(s.expired, "timeout", "timeouts"), of)}}
}

// spanOf names a time.
func spanOf(length time.Duration) string {
	switch {
	case length == 0:
		return "since start"
	case length < 2*time.Minute:
		return fmt.Sprintf("in the last %.0f s", length.Seconds())
	}
	return fmt.Sprintf("in the last %v min", math.Round(10*length.Minutes())/10)
}

// count says how many there are of something.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func seconds(d time.Duration) string {
	switch {
	case d >= time.Hour || d <= -time.Hour:
		return d.Round(time.Minute).String()
	case d >= time.Second || d <= -time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}
