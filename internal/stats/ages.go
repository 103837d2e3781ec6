package stats

import (
	"slices"
	"time"
)

// ages counts the pending operations of a shard by the time at which they started, so
// that the age of the oldest is known without looking at the operations. The operations of
// a shard are those whose first key is in it.
//
// A cell counts the operations that started in a span of time, which for a new cell is
// ageUnit. The age of an operation is taken to be that of its cell's start, which is too
// high by less than the width of the cell. compact merges neighbours only if the result is
// at most 1/16 as wide as the youngest of its operations is old. Operations only get
// older, so an age is too high by at most ageUnit or 1/16 of it, whichever is more.
//
// The cells are sorted and disjoint, and begin and end at multiples of ageUnit. Neither
// changes when neighbours are merged, and only a cell that counts nothing is dropped.
// So when an operation ends, the last cell that does not begin after its start is the one
// that counts it.
//
// An operation's start is read before the shard's lock is taken. So it may lie before the
// newest cell. If no cell has it, the operation gets a new cell in between.
//
// There are few cells, however many operations wait. If compact leaves two neighbours
// apart, then they are, from the start of the one to the end of the other, more than 1/16
// as wide as the time from there to now. So with every second cell, the time from a cell's
// end to now grows by a factor of at least 17/16. If the oldest operation is t·ageUnit old,
// compact leaves at most 3 + 33·ln(t) cells: 410 for an hour. The slice has room
// for about four times as many at most.
//
// A call of compact takes a step for each cell. It leaves at least half of the room free,
// so that is two steps for each cell that is added. Of the operations that start in order,
// one in ageUnit adds a cell.
//
// ages is not safe for concurrent use: the shard's lock guards it. See docs/decisions.md#ages-and-a-sample.
type ages struct {
	cells []ageCell // oldest first
}

// ageCell counts the pending operations that started at start or later, and before end.
type ageCell struct {
	start, end time.Duration
	pending    int64
}

const (
	ageUnit  = time.Duration(1 << 24) // 16.8 ms
	minCells = 32                     // room that compact leaves at least
)

// upTo returns the number of cells that do not begin after start. For most operations that
// is all of them. The binary search for the others has no branch that depends on start:
// with one, an operation that waits for more than ageUnit costs 20 ns more, of about 300.
func (a *ages) upTo(start time.Duration) (n int) {
	rest := len(a.cells)
	if rest > 0 && a.cells[rest-1].start <= start {
		return rest
	}
	for rest > 0 {
		half := (rest + 1) / 2
		rest -= half
		n += half &^ int((start-a.cells[n+half-1].start)>>63) // nothing if the cell begins after start
	}
	return n
}

// started counts an operation that starts at time start.
func (a *ages) started(start time.Duration) {
	i := a.upTo(start)
	if i > 0 && start < a.cells[i-1].end {
		a.cells[i-1].pending++
		return
	}
	begin := start &^ (ageUnit - 1)
	a.cells = slices.Insert(a.cells, i, ageCell{start: begin, end: begin + ageUnit, pending: 1})
	if len(a.cells) == cap(a.cells) {
		a.compact()
	}
}

// ended subtracts an operation that started at time start and was counted.
func (a *ages) ended(start time.Duration) { a.cells[a.upTo(start)-1].pending-- }

// compact drops cells that count no operation, and merges neighbours.
func (a *ages) compact() {
	now := a.cells[len(a.cells)-1].start // or later
	kept := a.cells[:0]
	for _, c := range a.cells {
		last := len(kept) - 1
		switch {
		case c.pending == 0:
		case last >= 0 && c.end-kept[last].start <= (now-c.end)/16:
			kept[last].end = c.end
			kept[last].pending += c.pending
		default:
			kept = append(kept, c)
		}
	}
	a.cells = slices.Grow(kept, max(len(kept), minCells))
}

// addTo adds the ages at time now to all, and returns that of the oldest operation.
func (a *ages) addTo(all *Histogram, now time.Duration) (oldest time.Duration) {
	for _, c := range a.cells {
		if c.pending > 0 {
			oldest = max(oldest, now-c.start)
			all.add(now-c.start, WaitUnit, c.pending)
		}
	}
	return oldest
}
