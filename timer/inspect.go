package timer

import (
	"math/bits"
	"time"
)

// Wheels is a picture of a timer's wheels, summed over its shards. Inspect looks at the shards
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
	// shard's buckets that it did not count to the end; the young entries count as one
	// such bucket.
	Estimated bool
}

const (
	shownSlots  = 64
	countBudget = 1 << 15 // entries in buckets that Inspect plans to look at, divided by the number of shards
)

// Inspect returns a picture of t's wheels. Its cost does not depend on the number of pending
// entries: it looks at less than 100,000 of them, or at two in each non-empty bucket if there
// are more than 32,768 such buckets. It holds no lock for more than a few hundred entries. It
// estimates what it does not count.
func Inspect(t Timer) Wheels { return t.inspect() }

// Due returns how many entries of t have expired and wait for a worker, and how long ago the
// first deadline of these passed. It looks at up to 128 entries in each shard, so both are
// lower bounds if there are more.
func Due(t Timer) (n int, oldest time.Duration) { return t.overdueEntries() }

func (t *store) overdueEntries() (n int, oldest time.Duration) {
	now := max(t.now(), 1) // the earliest deadline is 1 ns, and has passed even at 0
	for _, s := range t.shards {
		s.mu.Lock()
		looked := 0
		for e := s.mu.due.root.Next; e != &s.mu.due.root && looked < chunk; e = e.Next {
			if late := now - time.Duration(e.At); late >= 0 { // otherwise it was extended
				n++
				oldest = max(oldest, late)
			}
			looked++
		}
		s.mu.Unlock()
	}
	return n, oldest
}

func (t *store) inspect() Wheels {
	now := t.now()
	size := t.shards[0].mu.wheel.size // constant: it needs no lock
	w := Wheels{Now: now, Tick: time.Duration(t.tick), Size: int(size)}
	fold := (size + shownSlots - 1) / shownSlots
	perShard := countBudget / len(t.shards)
	for _, s := range t.shards {
		s.inspect(&w, int64(now)/t.tick, fold, perShard)
	}
	return w
}

// inspect adds s to w. A slot of w holds fold buckets. budget is how many entries it may
// look at.
func (s *shard) inspect(w *Wheels, tick, fold int64, budget int) {
	s.mu.Lock()
	filled := 1
	levels := len(s.mu.wheel.levels)
	for l := range s.mu.wheel.levels {
		for _, word := range s.mu.wheel.levels[l].filled {
			filled += bits.OnesCount64(word)
		}
	}
	pending := int(s.mu.pending)
	perBucket := min(max(budget/filled, 1), chunk)
	due := s.mu.due.count(chunk)
	young := s.mu.young.count(2*chunk + 1)
	s.mu.Unlock()
	w.Pending += pending
	w.Due += due
	w.Young.Entries += young

	left := pending - due - young
	var partial []*Slot // slots with a bucket that was not counted to the end
	if young > 2*chunk {
		partial = append(partial, &w.Young)
	}
	for l := range levels {
		slots := w.level(s, l, tick, fold)
		for bucket := int64(0); ; bucket++ {
			var at int64
			var n int
			if bucket, at, n = s.countNext(l, bucket, perBucket); bucket < 0 {
				break
			}
			slot := &slots[at/fold]
			if n > perBucket {
				partial = append(partial, slot)
			}
			slot.Entries += n
			left -= n
		}
	}
	for i, slot := range partial {
		slot.Estimated = true
		share := max(left, 0) / (len(partial) - i)
		slot.Entries += share
		left -= share
	}
}

// level returns the slots of w's level l. It adds the level to w if s is the first shard that
// has it.
func (w *Wheels) level(s *shard, l int, tick, fold int64) []Slot {
	if l == len(w.Levels) {
		s.mu.Lock()
		lv := &s.mu.wheel.levels[l]
		hand, span := s.mu.wheel.slot(lv.number(tick)), Never
		if lv.span <= int64(Never)/fold/int64(w.Tick) {
			span = time.Duration(lv.span*fold) * w.Tick
		}
		w.Levels = append(w.Levels, WheelLevel{
			Span:  span,
			Hand:  int(hand / fold),
			Slots: make([]Slot, (s.mu.wheel.size+fold-1)/fold),
		})
		s.mu.Unlock()
	}
	return w.Levels[l].Slots
}

// countNext finds the first non-empty bucket of level l from index from on, and counts its
// entries up to limit+1. at is the slot in whose span the bucket expires; because of the
// wheel's phase, it may differ from the bucket's index. countNext holds the lock while it
// counts.
func (s *shard) countNext(l int, from int64, limit int) (bucket, at int64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.mu.wheel
	lv := &w.levels[l]
	if bucket = nextBit(lv.filled, from, w.size); bucket < 0 {
		return bucket, 0, 0
	}
	ahead := bucket - w.slot(lv.now)
	if ahead < 0 {
		ahead += w.size
	}
	expires := (lv.now+ahead)*lv.span - w.phase
	return bucket, w.slot(lv.number(expires)), lv.buckets[bucket].count(limit + 1)
}

// count returns the number of entries in l, at most limit.
func (l *taskList) count(limit int) (n int) {
	for e := l.root.Next; e != &l.root && n < limit; e = e.Next {
		n++
	}
	return n
}
