package timer

import "time"

// Wheels is a picture of a timer's wheels, summed over its shards. Inspect reads the shards
// one after the other, so it is not a picture of one moment.
type Wheels struct {
	Now     time.Duration // on the timer's clock
	Tick    time.Duration
	Size    int          // number of buckets in a wheel
	Pending int          // number of scheduled entries
	Due     int          // of Pending: expired, and not yet run; a lower bound beyond 128 in a shard
	Young   Slot         // of Pending: young, and in no slot yet; see the package documentation
	Levels  []WheelLevel // the lowest first
}

// WheelLevel is one wheel of the hierarchy.
type WheelLevel struct {
	Span  time.Duration // the time that one slot spans
	Hand  int           // index of the slot that holds the current time
	Slots []Slot
}

// Slot is a bucket of a wheel; in a wheel of more than 64 buckets, it is several adjacent
// ones.
type Slot struct {
	Entries int
	// Estimated says that there were too many entries to count them all. Inspect
	// distributes the entries of a shard that it did not count evenly over those of the
	// shard's buckets that it did not count to the end. The young entries count as one
	// such bucket, so do those that are due, and all buckets of a slot of which it counted none.
	Estimated bool
}

const (
	shownSlots  = 64
	countBudget = 1024 // how many entries of a shard Inspect counts, beside those that are due
)

// Inspect returns a picture of t's wheels. Its cost does not depend on the number of pending
// entries: in each shard it counts about 1,000 of them, up to 128 in a bucket, and estimates
// the rest. It holds the shard's lock meanwhile, for some ten microseconds, so call it for a
// page or a log, not for each request.
func Inspect(t Timer) Wheels {
	store := t.core()
	w := Wheels{Now: store.clock.Now(), Tick: time.Duration(store.tick), Size: int(store.wheelSize)}
	for s := range store.made {
		s.mu.Lock()
		s.inspectLocked(&w)
		s.mu.Unlock()
	}
	return w
}

// Tick returns the length of t's tick: see [WithTick].
func Tick(t Timer) time.Duration { return time.Duration(t.core().tick) }

// Due returns how many entries of t have expired and wait for a worker, and how long ago the
// first deadline of these passed. It reads up to 128 entries in each shard, so both are
// lower bounds if there are more.
func Due(t Timer) (n int, oldest time.Duration) {
	store := t.core()
	now := max(store.clock.Now(), 1) // the earliest deadline is 1 ns, and has passed even at 0
	for s := range store.made {
		s.mu.Lock()
		seen := 0
		for e := s.mu.due.root.Next; e != &s.mu.due.root && seen < chunk; e = e.Next {
			if late := now - time.Duration(e.At); late >= 0 { // otherwise it was extended
				n++
				oldest = max(oldest, late)
			}
			seen++
		}
		s.mu.Unlock()
	}
	return n, oldest
}

// inspectLocked adds s to w.
func (s *shard) inspectLocked(w *Wheels) {
	due, uncounted := Slot{Entries: s.mu.due.count(chunk)}, int(s.mu.pending)
	w.Due += due.Entries
	w.Pending += uncounted
	uncounted -= due.Entries
	budget := countBudget
	var partial []*Slot // those with a bucket that was not counted to the end
	if due.Entries == chunk {
		partial = append(partial, &due) // what is left of the others' is in no slot
	}
	count := func(l *taskList, slot *Slot) {
		limit := min(budget, chunk)
		n := l.count(limit + 1)
		if n > limit {
			partial = append(partial, slot)
		}
		slot.Entries += n
		budget -= n
		uncounted -= n
	}
	count(&s.mu.young, &w.Young)
	wheel := &s.mu.wheel
	fold := (wheel.size + shownSlots - 1) / shownSlots // buckets in a slot of w
	for l := range wheel.levels {
		lv := &wheel.levels[l]
		if l == len(w.Levels) {
			w.Levels = append(w.Levels, WheelLevel{
				Span:  time.Duration(min(lv.span, int64(Never)/fold/s.tick) * fold * s.tick),
				Hand:  int(wheel.slot(int64(w.Now)/s.tick/lv.span) / fold),
				Slots: make([]Slot, (wheel.size+fold-1)/fold),
			})
		}
		slots := w.Levels[l].Slots
		// A bucket is shown in the slot in whose span it expires. Because of the phase, that
		// is ahead of its own by as many buckets as the phase has begun.
		ahead := wheel.slot((wheel.phase + lv.span - 1) / lv.span)
		for b := nextBit(lv.filled, 0, wheel.size); b < wheel.size; b = nextBit(lv.filled, b+1, wheel.size) {
			if lv.buckets[b].empty() { // what was in it has been cancelled
				lv.filled[b>>6] &^= 1 << (b & 63)
				continue
			}
			at := wheel.slot(b - ahead + wheel.size)
			count(&lv.buckets[b], &slots[at/fold])
			if budget <= 0 { // go on with the next slot
				b += min(fold-at%fold, wheel.size-at) - 1
			}
		}
	}
	for i, slot := range partial {
		slot.Estimated = true
		share := uncounted / (len(partial) - i)
		slot.Entries += share
		uncounted -= share
	}
}

// count returns the number of entries in l, at most limit.
func (l *taskList) count(limit int) (n int) {
	for e := l.root.Next; e != &l.root && n < limit; e = e.Next {
		n++
	}
	return n
}
