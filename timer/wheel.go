package timer

import (
	"math"
	"math/bits"

	"github.com/delayedop/purgatory/internal/entry"
)

// timingWheel is a hierarchy of timing wheels. It is not safe for concurrent use, and reads no clock: time is counted in
// ticks.
//
// Write ticks with digits in base size. An entry lies at the level of the highest digit in which its tick
// differs from now, in the bucket of that digit (docs/internals/decisions.md#the-highest-digit-that-differs):
//
//	now           1 2 7        size 10
//	tick          1 2 9   →    level 0, bucket 9
//	tick          1 4 0   →    level 1, bucket 4, which expires at 140
//	tick          3 0 5   →    level 2, bucket 3, which expires at 300
//
// So
//
//   - the tick's digit there is greater than now's: no bucket wraps around;
//   - the bucket that expires first is the first one of the lowest level that is not empty;
//   - when now reaches the first tick of a bucket of a higher level, its entries are due, or belong to lower
//     levels.
//
// now must not pass the first tick of a bucket that holds an entry.
type timingWheel struct {
	size   int64
	shift  uint // log2(size); 0 if size is no power of two
	now    int64
	levels []level // made on demand
}

type level struct {
	buckets []entry.List
	// filled has bit i set if buckets[i] holds an entry, and perhaps if it did.
	filled []uint64
	_      [16]byte // fills a cache line
}

const (
	never = math.MaxInt64 // later than any tick and any time

	lineWords    = 64 / 8  // each addition writes a bitmap, so none shares a cache line
	maxWheelSize = 1 << 20 // 16 MB for each level
)

func (w *timingWheel) init(size, now int64) {
	w.size, w.now = size, now
	if size&(size-1) == 0 {
		w.shift = uint(bits.TrailingZeros64(uint64(size)))
	}
}

// put puts e, which expires at tick > now, into its bucket, and returns the bucket's first tick.
func (w *timingWheel) put(e *entry.Entry, tick int64) (first int64) {
	l, slot := uint(0), tick
	if shift := w.shift; shift > 0 {
		l = uint(bits.Len64(uint64(tick^w.now))-1) / shift
		below := l * shift & 63 // bits
		first = tick >> below << below
		slot = tick >> below & (w.size - 1)
	} else {
		span := int64(1)
		for now := w.now / w.size; slot/w.size != now; now /= w.size {
			l, slot, span = l+1, slot/w.size, span*w.size
		}
		first = slot * span
		slot %= w.size
	}
	for int(l) >= len(w.levels) {
		w.grow()
	}
	lv := &w.levels[l]
	lv.buckets[slot].Push(e)
	lv.filled[slot>>6] |= 1 << (slot & 63)
	return first
}

func (w *timingWheel) grow() {
	words := (w.size + 63) / 64
	lv := level{buckets: make([]entry.List, w.size), filled: make([]uint64, words, max(words, lineWords))}
	for i := range lv.buckets {
		lv.buckets[i].Init()
	}
	w.levels = append(w.levels, lv)
}

// next returns the bucket that expires first, its first tick and its level; nil and never if there is none.
func (w *timingWheel) next() (bucket *entry.List, first int64, l int) {
	now, span := w.now, int64(1)
	for l := range w.levels {
		above := now / w.size
		lv := &w.levels[l]
		for i := (now - above*w.size) >> 6; i < int64(len(lv.filled)); i++ {
			for word := lv.filled[i]; word != 0; lv.filled[i] = word {
				slot := i<<6 + int64(bits.TrailingZeros64(word))
				if bucket = &lv.buckets[slot]; !bucket.Empty() {
					return bucket, (above*w.size + slot) * span, l
				}
				word &= word - 1
			}
		}
		now, span = above, span*w.size
	}
	return nil, never, 0
}
