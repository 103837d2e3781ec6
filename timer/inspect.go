package timer

import (
	"math/bits"
	"time"
)

// Wheels is a picture of a timer's wheels, summed over its shards, at one moment, or
// nearly: shards are looked at one after the other.
type Wheels struct {
	Now     time.Duration // on the timer's clock
	Tick    time.Duration
	Size    int  // buckets of a wheel
	Pending int  // entries
	Due     int  // of them: expired, and waiting for a worker or to be placed again; or at least so many
	Young   Slot // of them: added a short while ago, far from due, in no slot yet
	Levels  []WheelLevel
}

// WheelLevel is one wheel of the hierarchy, the lowest first.
type WheelLevel struct {
	Span  time.Duration // that one slot stands for
	Hand  int           // the slot that now lies in
	Slots []Slot
}

// Slot is a bucket of a wheel; of a wheel of more than 64, several.
type Slot struct {
	Entries int
	// Estimated: there were too many to count. The entries of a shard that were not
	// counted are distributed evenly over its buckets that were not counted to the end;
	// its young entries count as one of them.
	Estimated bool
}

const (
	shownSlots  = 64
	countBudget = 1 << 15 // entries that Inspect looks at, if there are not more buckets
)

// Inspect returns a picture of t's wheels. Its cost is bounded, whatever is pending:
// it looks at up to about 32,000 entries, or at two in each bucket if there are more
// buckets than that, and holds no lock for more than a few hundred at a time. What it
// does not count it estimates.
func Inspect(t Timer) Wheels {
	return t.(interface{ inspect() Wheels }).inspect() // sealed: every Timer embeds store
}

func (t *store) inspect() Wheels {
	now := t.now()
	first := &t.shards[0]
	first.mu.Lock()
	size := first.mu.wheel.size
	first.mu.Unlock()
	w := Wheels{Now: now, Tick: time.Duration(t.tick), Size: int(size)}
	fold := (size + shownSlots - 1) / shownSlots
	perShard := countBudget / len(t.shards)
	for i := range t.shards {
		t.shards[i].inspect(&w, int64(now)/t.tick, fold, perShard)
	}
	return w
}

// inspect adds s to w, where a slot stands for fold buckets.
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
	due := s.mu.due.count(chunk) + s.mu.cascade.count(chunk)
	young := s.mu.young.count(2*chunk + 1)
	s.mu.Unlock()
	w.Pending += pending
	w.Due += due
	w.Young.Entries += young

	left := pending - due - young
	var open []*Slot // not counted to the end
	if young > 2*chunk {
		open = append(open, &w.Young)
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
				open = append(open, slot)
			}
			slot.Entries += n
			left -= n
		}
	}
	for i, slot := range open {
		slot.Estimated = true
		share := max(left, 0) / (len(open) - i)
		slot.Entries += share
		left -= share
	}
}

// level returns the slots of w's level l, which it adds if s is the first to reach
// as high.
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

// countNext finds the next non-empty bucket of a level and counts it, to one more
// than limit at most; at is the slot in whose span it expires, which would be its own
// in a wheel that is not ahead of the clock. The lock is held for one bucket only.
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
	expires := s.onClock((lv.now + ahead) * lv.span)
	return bucket, w.slot(lv.number(expires)), lv.buckets[bucket].count(limit + 1)
}

// count returns the number of entries in l, limit if there are more.
func (l *taskList) count(limit int) (n int) {
	for e := l.root.next; e != &l.root && n < limit; e = e.next {
		n++
	}
	return n
}
