package timer

import (
	"math"
	"math/bits"

	"github.com/delayedop/purgatory/internal/entry"
)

// timingWheel is a hierarchy of timing wheels (Varghese & Lauck 1987, scheme 7). It is not
// safe for concurrent use. It starts no goroutine, takes no lock and reads no clock: time is
// an argument, counted in ticks of the clock. Bucket numbers are computed from the tick plus
// phase.
//
// A bucket of level l spans size^l ticks. An entry lies in the lowest level whose size
// buckets, counted from the current one, reach the entry's tick. A bucket expires when the
// clock reaches its first tick: the entries of a bucket of level 0 are due then, those of a
// higher level are placed again, in a lower level.
//
//	level 0   |0|1|2|…|63|              a bucket is one tick
//	level 1   |0.....63|64....127|…     a bucket is 64 ticks
//	level 2   |0................4095|…  a bucket is 4,096 ticks
//
// add creates levels on demand, the lowest included, up to the range of an int64 of ticks.
type timingWheel struct {
	size   int64
	phase  int64 // ticks by which bucket numbers are ahead of the clock, see newShard
	now    int64 // the current tick: no bucket that expires at or before it holds an entry
	levels []level
}

// Every move and every add writes a level's numbers and its bitmap. So the levels of one
// wheel share no cache line with those of another: otherwise two processors on two shards do
// no more work than one processor.
const (
	lineWords   = 64 / 8 // minimal capacity of a bitmap, one cache line
	startLevels = 8      // 576 bytes, nine cache lines
)

type level struct {
	span    int64 // ticks per bucket
	shift   int   // log2(span) if size is a power of two, -1 otherwise
	now     int64 // number of the bucket that holds the wheel's now
	buckets []taskList
	filled  []uint64 // bit i: buckets[i] is not empty
}

// maxWheelSize keeps a bucket's position, level*size + slot, within 32 bits.
const maxWheelSize = 1 << 20

// grow adds a level on top. An empty wheel has none.
func (w *timingWheel) grow() {
	if w.levels == nil {
		w.levels = make([]level, 0, startLevels)
	}
	lv := level{span: 1, shift: -1}
	if n := len(w.levels); n > 0 {
		lv.span = w.levels[n-1].span * w.size
	}
	if w.size&(w.size-1) == 0 {
		lv.shift = bits.TrailingZeros64(uint64(lv.span))
	}
	lv.now = lv.number(w.now + w.phase)
	lv.buckets = make([]taskList, w.size)
	words := (w.size + 63) / 64
	lv.filled = make([]uint64, words, max(words, lineWords))
	base := int64(len(w.levels)) * w.size
	for i := range lv.buckets {
		lv.buckets[i].init()
		lv.buckets[i].root.At = base + int64(i) + 1
	}
	w.levels = append(w.levels, lv)
}

// number returns the number of the bucket that holds tick. The caller has added the phase
// to tick.
func (lv *level) number(tick int64) int64 {
	if lv.shift >= 0 {
		return tick >> lv.shift
	}
	return tick / lv.span
}

func (w *timingWheel) slot(number int64) int64 {
	if w.size&(w.size-1) == 0 {
		return number & (w.size - 1)
	}
	return number % w.size
}

// add places e, which expires at tick > now, and returns the tick at which its bucket
// expires. The loop ends: when span*size exceeds an int64, every bucket number is below
// size.
func (w *timingWheel) add(e *entry.Entry, tick int64) (expiration int64) {
	for i := 0; ; i++ {
		if i == len(w.levels) {
			w.grow()
		}
		lv := &w.levels[i]
		number := lv.number(tick + w.phase)
		if number-lv.now >= w.size {
			continue
		}
		slot := w.slot(number)
		lv.buckets[slot].pushBack(e)
		lv.filled[slot>>6] |= 1 << (slot & 63)
		return number*lv.span - w.phase
	}
}

// emptied clears the bit of the bucket with this root, which holds no entry. It does nothing
// for a list that is no bucket.
func (w *timingWheel) emptied(root *entry.Entry) {
	position := root.At - 1
	if position < 0 {
		return // young or due
	}
	slot := w.slot(position)
	w.levels[(position-slot)/w.size].filled[slot>>6] &^= 1 << (slot & 63)
}

// never is later than any tick and any time.
const never = math.MaxInt64

// next returns the tick at which the earliest non-empty bucket expires, and that bucket;
// never and nil if there is none. Of two buckets that expire together it returns the one of
// the higher level, because entries of that bucket may have to go into the other.
func (w *timingWheel) next() (expiration int64, bucket *taskList) {
	expiration = never
	for i := range w.levels {
		lv := &w.levels[i]
		here := w.slot(lv.now)
		slot, ahead := nextBit(lv.filled, here, w.size), -here
		if slot == w.size {
			slot, ahead = nextBit(lv.filled, 0, here), w.size-here
		}
		if ahead+slot == w.size { // none
			continue
		}
		if at := (lv.now+ahead+slot)*lv.span - w.phase; at <= expiration {
			expiration, bucket = at, &lv.buckets[slot]
		}
	}
	return expiration, bucket
}

// nextBit returns the index of the first set bit in [from, to), to if there is none.
func nextBit(words []uint64, from, to int64) int64 {
	for from < to {
		if word := words[from>>6] >> (from & 63); word != 0 {
			return min(from+int64(bits.TrailingZeros64(word)), to)
		}
		from = from&^63 + 64
	}
	return to
}

// moveTo sets the current tick. No non-empty bucket may expire at or before tick, except one
// that expires at tick: the caller empties it before it moves the wheel again, and may use
// the wheel meanwhile.
func (w *timingWheel) moveTo(tick int64) {
	w.now = tick
	for i := range w.levels {
		w.levels[i].now = w.levels[i].number(tick + w.phase)
	}
}
