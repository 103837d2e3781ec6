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
// higher level are put into a lower level.
//
//	level 0   |0|1|2|…|63|              a bucket is one tick
//	level 1   |0.....63|64....127|…     a bucket is 64 ticks
//	level 2   |0................4095|…  a bucket is 4,096 ticks
//
// add creates levels on demand, the lowest included, up to the range of an int64 of ticks.
type timingWheel struct {
	size   int64
	phase  int64 // ticks by which bucket numbers are ahead of the clock, see newShard
	now    int64 // the current tick: no bucket that expires at or before it holds an entry, but one that is being emptied
	levels []level
}

type level struct {
	span    int64 // ticks per bucket
	shift   int   // log2(span) if size is a power of two, 64 otherwise
	buckets []taskList
	filled  []uint64 // bit i is set if buckets[i] is not empty, and perhaps since it was emptied until next looks
}

// lineWords is the minimal capacity of a bitmap, one cache line: every addition writes it, and
// processors that write one line do no more work on two wheels than on one.
const lineWords = 64 / 8

// maxWheelSize bounds the memory of a level, 32 MB.
const maxWheelSize = 1 << 20

// grow adds a level on top. An empty wheel has none.
func (w *timingWheel) grow() {
	lv := level{span: 1, shift: 64}
	if n := len(w.levels); n > 0 {
		lv.span = w.levels[n-1].span * w.size
	}
	if w.size&(w.size-1) == 0 {
		lv.shift = bits.TrailingZeros64(uint64(lv.span))
	}
	lv.buckets = make([]taskList, w.size)
	words := (w.size + 63) / 64
	lv.filled = make([]uint64, words, max(words, lineWords))
	for i := range lv.buckets {
		lv.buckets[i].init()
	}
	w.levels = append(w.levels, lv)
}

// number returns the number of the bucket that holds tick. The caller has added the phase
// to tick.
func (lv *level) number(tick int64) int64 {
	if uint(lv.shift) < 64 {
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

// add puts e, which expires at tick > now, into its bucket, and returns the tick at which that
// expires. The loop ends: when span*size exceeds an int64, every bucket number is below
// size.
func (w *timingWheel) add(e *entry.Entry, tick int64) (expiration int64) {
	now := w.now + w.phase
	tick += w.phase
	for i := 0; ; i++ {
		if i == len(w.levels) {
			w.grow()
		}
		lv := &w.levels[i]
		number := lv.number(tick)
		if number-lv.number(now) >= w.size {
			continue
		}
		slot := w.slot(number)
		lv.buckets[slot].pushBack(e)
		lv.filled[slot>>6] |= 1 << (slot & 63)
		return number*lv.span - w.phase
	}
}

// never is later than any tick and any time.
const never = math.MaxInt64

// next returns the tick at which the earliest non-empty bucket expires, its level, and that bucket;
// never and nil if there is none. Of two buckets that expire together it returns the one of
// the higher level, because entries of that bucket may have to go into the other.
func (w *timingWheel) next() (expiration int64, l int, bucket *taskList) {
	expiration = never
	for i := range w.levels {
		lv := &w.levels[i]
		now := lv.number(w.now + w.phase)
		here := w.slot(now)
		for ahead := int64(0); ahead < w.size; ahead++ {
			from := w.slot(here + ahead)
			slot := nextBit(lv.filled, from, w.size)
			ahead += slot - from
			if slot = w.slot(slot); lv.buckets[slot].empty() { // the first one, or what was in it has been cancelled
				lv.filled[slot>>6] &^= 1 << (slot & 63)
				continue
			}
			if at := (now+ahead)*lv.span - w.phase; at <= expiration {
				expiration, l, bucket = at, i, &lv.buckets[slot]
			}
			break
		}
	}
	return expiration, l, bucket
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

// taskList is a doubly linked ring of entries around a root: a bucket of a wheel, or another
// list of a shard. It is not safe for concurrent use. An entry can be removed without
// knowing its list. So a whole bucket can move to another list in O(1), and its entries can
// still be cancelled.
type taskList struct {
	root entry.Entry // only Next and Prev of root are used
}

func (l *taskList) init() {
	l.root.Next, l.root.Prev = &l.root, &l.root
}

func (l *taskList) empty() bool { return l.root.Next == &l.root }

func (l *taskList) pushBack(e *entry.Entry) {
	last := l.root.Prev
	e.Prev, e.Next = last, &l.root
	last.Next, l.root.Prev = e, e
}

// takeAll moves all entries of from, which is not empty, to the end of l.
func (l *taskList) takeAll(from *taskList) {
	first, last := from.root.Next, from.root.Prev
	from.init()
	tail := l.root.Prev
	tail.Next, first.Prev = first, tail
	last.Next, l.root.Prev = &l.root, last
}

// unlink removes e from its list.
func unlink(e *entry.Entry) {
	e.Prev.Next, e.Next.Prev = e.Next, e.Prev
	e.Next, e.Prev = nil, nil
}
