package watermark

import (
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// Stats describes who waits for a watermark, and how waits have ended. Calls that return at once because the position was
// reached, or w was closed, are not counted. The counters begin at 0 in [New].
type Stats struct {
	Waiting int           // as Watermark.Waiting
	Oldest  time.Duration // how long the one who has waited longest has waited, on the system's clock

	Served    int64 // have got their position
	Left      int64 // were given up: their context ended, or Stop was called
	Expired   int64 // their timeout passed
	Cancelled int64 // were ended by Close, CancelForKey, or the end of the purgatory
	Refused   int64 // registrations that the purgatory, or its timer, refused: whoever shares one tries again

	TimeoutsExpected bool // of the purgatory: that waits expire is no sign of trouble
}

// Stats returns the current statistics. It takes a lock for the time that it needs to look at one wait, or, where those who
// began waits have left and others have stayed, at several. It may be called from any callback.
func (w *Watermark[K]) Stats() Stats {
	now, expected := sched.Now().Sub(epoch), w.p.Stats().TimeoutsExpected
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.mu.counts
	s.Waiting, s.TimeoutsExpected = w.mu.waiting, expected
	for c := w.mu.oldest; c != nil && now-c.came > s.Oldest; c = c.next { // nobody in a wait has come before it began
		s.Oldest = max(s.Oldest, now-c.first.since)
	}
	return s
}
