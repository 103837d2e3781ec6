package stats

import (
	"math/bits"
	"time"
)

// ages counts pending operations by the time at which they started, so that the age of
// the oldest is known without looking at the operations. It is a hierarchy of timing
// wheels that runs backwards. Level l has 64 cells of 2^24·4^l ns (16.8 ms in level 0,
// 67 ms in level 1), which cover the time up to now. When time moves a cell out of its
// level, the cell is merged into a cell of the level above. When an operation ends, it is
// subtracted from the cell that holds its start at that time; its start and now
// determine which one that is.
//
// The error of an age is the width of its cell. In level 0 that is 16.8 ms. In a higher
// level the operation is older than 63 cells of the level below, so the error is at most
// 4/63 of its age.
//
// ages is not safe for concurrent use: the shard's lock guards it.
type ages struct {
	now    int64 // no cell is newer
	levels []*ageLevel

	// Operations that started in the latest cell are counted in fresh. join adds them to
	// the cell before any cell is read.
	latest int64 // number of that cell in level 0
	fresh  int32
}

type ageLevel struct {
	filled uint64 // bit i is set if cells[i] is not 0
	// cells may be negative: an operation is added in the shard of its first key and
	// subtracted in the shard in which it ends. Only the sum over all shards has a
	// meaning. It is right even if the counts of single shards wrap around.
	cells [64]int32
}

const (
	ageCells  = 64
	ageShift  = 24 // log2 of the width of the cells of level 0, in nanoseconds
	ageFactor = 2  // log2 of the factor by which the cells of the next level are wider
)

func levelShift(l int) int { return ageShift + ageFactor*l }

// started counts an operation that starts at time start. Most operations start in the
// same cell as the one before; they cost one comparison and one addition.
func (a *ages) started(start time.Duration) {
	if int64(start)>>ageShift != a.latest {
		a.join()
		a.latest = int64(start) >> ageShift
	}
	a.fresh++
}

// ended subtracts an operation that started at time start.
func (a *ages) ended(start time.Duration) {
	if int64(start)>>ageShift == a.latest {
		a.fresh--
		return
	}
	a.advance(int64(start))
	a.add(int64(start), -1, 0)
}

// join adds the operations in fresh to their cell.
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

// add adds n to the cell that holds time at, in the lowest possible level from level from
// upwards. The loop ends, because 64 cells of 2^60 ns cover all times.
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

// advance moves now forward, and merges the cells that leave a level into the levels
// above. It begins with the highest level, so that a cell is merged into a level that has
// moved already.
func (a *ages) advance(now int64) {
	was := a.now
	if now>>ageShift <= was>>ageShift {
		return
	}
	a.now = now
	for l := len(a.levels) - 1; l >= 0; l-- {
		lv := a.levels[l]
		from, to := was>>levelShift(l), now>>levelShift(l)
		leaving := lv.filled & bits.RotateLeft64(1<<(to-from)-1, int(from+1)) // all, if to-from is 64 or more
		lv.filled &^= leaving
		for ; leaving != 0; leaving &= leaving - 1 {
			i := int64(bits.TrailingZeros64(leaving))
			n := lv.cells[i]
			lv.cells[i] = 0
			a.add(cellNumber(from, i)<<levelShift(l), n, l+1)
		}
	}
}

// cellNumber returns the number of the i-th cell of a level whose newest cell has the
// number last.
func cellNumber(last, i int64) int64 { return last - (last-i)&(ageCells-1) }

// addTo adds a to t.
func (a *ages) addTo(t *ages) {
	a.join()
	t.advance(a.now)
	a.advance(t.now)
	a.each(func(l int, start int64, n int32) { t.add(start, n, l) })
}

// each calls f for every cell that is not 0, in no particular order. f gets the level, the
// beginning of the cell and its count.
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
