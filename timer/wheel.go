package timer

import (
	"math"
	"math/bits"
)

// timingWheel is a hierarchy of timing wheels (Varghese & Lauck 1987, scheme 7).
// It is pure: it starts no goroutine, takes no lock, reads no clock. Time is
// counted in ticks and comes in as an argument.
//
// A bucket of level l spans size^l ticks. An entry lies in the lowest level
// whose size buckets, counted from the current one, reach its tick. The bucket
// expires when its first tick is reached: at level 0 its entries are due, at a
// higher level they are placed again, lower.
//
//	level 0   |0|1|2|…|63|              a bucket is one tick
//	level 1   |0.....63|64....127|…     a bucket is 64 ticks
//	level 2   |0................4095|…  a bucket is 4,096 ticks
//
// Levels come on demand, as far as an int64 of ticks reaches.
type timingWheel struct {
	size   int64
	now    int64 // no bucket that expires at or before this tick holds an entry
	levels []level

	// startAt[n] is the lowest level that can reach a tick whose distance from now
	// has n significant bits. The entry lies there, or one level above.
	startAt [64]uint8
}

// A level's numbers and its bitmap are written at every move and every add:
// those of one wheel share no cache line with another's, or sharding would be
// for nothing (measured: two processors on two shards did no more than one).
const (
	lineWords   = 64 / 8 // a bitmap's least capacity
	startLevels = 8      // 576 bytes, nine cache lines
)

type level struct {
	span    int64 // ticks per bucket
	shift   int   // log2(span) if size is a power of two, -1 otherwise
	now     int64 // number of the bucket that holds the wheel's now
	buckets []taskList
	filled  []uint64 // bit i: buckets[i] is not empty
}

// maxWheelSize keeps a bucket's position (level, slot) within 32 bits.
const maxWheelSize = 1 << 20

func (w *timingWheel) init(size int, now int64) {
	w.size, w.now = int64(size), now
	w.levels = make([]level, 0, startLevels)
	w.grow()
	l, reach := uint8(0), w.size // of level l: size^(l+1) ticks
	for n := 1; n < len(w.startAt); n++ {
		for reach <= 1<<(n-1) {
			if l++; reach > math.MaxInt64/w.size {
				reach = math.MaxInt64
			} else {
				reach *= w.size
			}
		}
		w.startAt[n] = l
	}
}

// grow adds a level on top.
func (w *timingWheel) grow() {
	lv := level{span: 1, shift: -1}
	if n := len(w.levels); n > 0 {
		lv.span = w.levels[n-1].span * w.size
	}
	if w.size&(w.size-1) == 0 {
		lv.shift = bits.TrailingZeros64(uint64(lv.span))
	}
	lv.now = lv.number(w.now)
	lv.buckets = make([]taskList, w.size)
	words := (w.size + 63) / 64
	lv.filled = make([]uint64, words, max(words, lineWords))
	base := uint32(len(w.levels)) * uint32(w.size)
	for i := range lv.buckets {
		lv.buckets[i].init()
		lv.buckets[i].root.where = base + uint32(i) + 1
	}
	w.levels = append(w.levels, lv)
}

// number returns the number, counted from tick 0, of the bucket that holds tick.
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

// add places e, which expires at tick > now, and returns the tick at which its
// bucket expires.
//
// It ends: once span*size exceeds an int64, every bucket number is below size.
func (w *timingWheel) add(e *TaskEntry, tick int64) (expiration int64) {
	for i := int(w.startAt[bits.Len64(uint64(tick-w.now))&63]); ; i++ {
		for i >= len(w.levels) {
			w.grow()
		}
		lv := &w.levels[i]
		number := lv.number(tick)
		if number-lv.now >= w.size {
			continue
		}
		slot := w.slot(number)
		lv.buckets[slot].pushBack(e)
		lv.filled[slot>>6] |= 1 << (slot & 63)
		return number * lv.span
	}
}

// emptied notes that the bucket with this root has no entries any more.
func (w *timingWheel) emptied(root *TaskEntry) {
	if root.where == 0 {
		return // a list of entries on their way out
	}
	position := int64(root.where - 1)
	slot := w.slot(position)
	w.levels[(position-slot)/w.size].filled[slot>>6] &^= 1 << (slot & 63)
}

// never is the expiration of no bucket.
const never = math.MaxInt64

// next returns the tick at which the earliest non-empty bucket expires, and
// that bucket; never and nil if there is none. Of two that expire together it
// returns the one of the higher level: its entries may belong in the other.
func (w *timingWheel) next() (expiration int64, bucket *taskList) {
	expiration = never
	for i := range w.levels {
		lv := &w.levels[i]
		here := w.slot(lv.now)
		slot, ahead := nextBit(lv.filled, here, w.size), -here
		if slot < 0 {
			slot, ahead = nextBit(lv.filled, 0, here), w.size-here
		}
		if slot < 0 {
			continue
		}
		if at := (lv.now + ahead + slot) * lv.span; at <= expiration {
			expiration, bucket = at, &lv.buckets[slot]
		}
	}
	return expiration, bucket
}

// nextBit returns the first set bit in [from, to), -1 if there is none.
func nextBit(words []uint64, from, to int64) int64 {
	for from < to {
		if word := words[from>>6] >> (from & 63); word != 0 {
			if bit := from + int64(bits.TrailingZeros64(word)); bit < to {
				return bit
			}
			return -1
		}
		from = from&^63 + 64
	}
	return -1
}

// moveTo sets the current tick. No bucket that is not empty may expire at or
// before it, but for one that the caller empties at once.
func (w *timingWheel) moveTo(tick int64) {
	w.now = tick
	for i := range w.levels {
		w.levels[i].now = w.levels[i].number(tick)
	}
}

// take moves the entries of bucket, which is not empty, to list.
func (w *timingWheel) take(bucket, list *taskList) {
	list.takeAll(bucket)
	w.emptied(&bucket.root)
}

// lowest reports whether bucket is one of level 0, whose entries are due when it
// expires; those of a higher one have to be placed again.
func (w *timingWheel) lowest(bucket *taskList) bool {
	return int64(bucket.root.where) <= w.size
}
