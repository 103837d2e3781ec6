package watchers

import (
	"math/bits"
	"time"
)

// ages counts operations by when they started, so that the age of the oldest is
// known without a look at any of them. It is a hierarchy of timing wheels in
// reverse: level l has 64 cells of 2^24·4^l ns (16.8 ms, 67 ms, …), the last ones
// before now; a cell that time pushes out of its level is merged into the level
// above. An operation that ends is subtracted from the cell in which its start
// lies by then, which depends on its start and now alone.
//
// The error is the width of a cell. In level 0 that is 16.8 ms; in a higher one,
// an operation is older than 63 cells of the level below, so 4/63 of its age.
//
// It is not safe for concurrent use: the shard's lock guards it.
type ages struct {
	now    int64 // nothing is newer
	levels []*ageLevel

	// Operations that started in the latest cell are counted here, and join the others
	// before anybody looks at a cell.
	latest int64 // number of the cell, in level 0
	fresh  int32
}

type ageLevel struct {
	filled uint64 // bit i: cells[i] is not 0
	// cells may be negative: an operation is added in the shard of its first key,
	// and subtracted where it ends. Only the sum over shards means something, also
	// when single ones wrap around.
	cells [64]int32
}

const (
	ageCells  = 64
	ageShift  = 24 // log2 of the width of level 0's cells, in nanoseconds
	ageFactor = 2  // log2 of how much wider each level's are
)

func levelShift(l int) int { return ageShift + ageFactor*l }

// started counts an operation that starts at this time. Most come in the same 16.8 ms
// as the one before: that is all they pay for.
func (a *ages) started(start time.Duration) {
	if int64(start)>>ageShift != a.latest {
		a.join()
		a.latest = int64(start) >> ageShift
	}
	a.fresh++
}

// ended takes back what n calls of started counted, all in the cell of start.
func (a *ages) ended(start, now time.Duration, n int32) {
	if int64(start)>>ageShift == a.latest {
		a.fresh -= n
		return
	}
	a.advance(int64(max(start, now)))
	a.add(int64(start), -n, 0)
}

// join counts the fresh in their cell.
func (a *ages) join() {
	if a.fresh != 0 {
		n, at := a.fresh, a.latest<<ageShift
		a.fresh = 0
		a.advance(at)
		a.add(at, n, 0)
	}
}

func (lv *ageLevel) add(number int64, n int32) {
	i := number & (ageCells - 1)
	lv.cells[i] += n
	if lv.cells[i] != 0 {
		lv.filled |= 1 << i
	} else {
		lv.filled &^= 1 << i
	}
}

// add adds n to the lowest cell, in level from or above, that holds at. It ends:
// with cells of 2^60 ns all times are in reach.
func (a *ages) add(at int64, n int32, from int) {
	for l := from; ; l++ {
		for l >= len(a.levels) {
			a.levels = append(a.levels, new(ageLevel))
		}
		number := at >> levelShift(l)
		if a.now>>levelShift(l)-number >= ageCells {
			continue
		}
		a.levels[l].add(number, n)
		return
	}
}

// advance moves now, and merges what leaves a level into those above it: they
// move first, so that there is room.
func (a *ages) advance(now int64) {
	was := a.now
	if now>>ageShift <= was>>ageShift {
		return
	}
	a.now = now
	for l := len(a.levels) - 1; l >= 0; l-- {
		lv := a.levels[l]
		from, to := was>>levelShift(l), now>>levelShift(l)
		leaving := lv.filled
		if to-from < ageCells {
			leaving &= bits.RotateLeft64(1<<(to-from)-1, int(from+1)%ageCells)
		}
		lv.filled &^= leaving
		for ; leaving != 0; leaving &= leaving - 1 {
			i := int64(bits.TrailingZeros64(leaving))
			n := lv.cells[i]
			lv.cells[i] = 0
			a.add(cellNumber(from, i)<<levelShift(l), n, l+1)
		}
	}
}

// cellNumber returns the number of the i-th cell of a level whose newest has the
// number last.
func cellNumber(last, i int64) int64 { return last - (last-i)&(ageCells-1) }

// addTo adds a to t.
func (a *ages) addTo(t *ages) {
	a.join()
	t.advance(a.now)
	a.advance(t.now)
	a.each(func(l int, start int64, n int32) { t.add(start, n, l) })
}

// each calls f for every cell that is not 0, in no order.
func (a *ages) each(f func(l int, start int64, n int32)) {
	a.join()
	for l, lv := range a.levels {
		last := a.now >> levelShift(l)
		for filled := lv.filled; filled != 0; filled &= filled - 1 {
			i := int64(bits.TrailingZeros64(filled))
			f(l, cellNumber(last, i)<<levelShift(l), lv.cells[i])
		}
	}
}
