package stats

import (
	"slices"
	"sort"
	"time"
)

// ages counts the pending operations whose first key is in a shard by the time at which
// they started, so that the age of the oldest is known without looking at the operations.
//
// An operation is counted in the cell that holds its start, and its age is taken as that
// of the cell's start. So the error of an age is less than the width of the cell. A new
// cell is ageUnit wide. compact merges neighbours if the result is at most 1/16 as wide as
// all its operations are old. They only get older, so the error stays below ageUnit, or
// 1/16 of the age.
//
// The cells are sorted and disjoint. Cells begin and end at multiples of ageUnit, and only
// neighbours are merged. So two things remain true until an operation ends: the last cell
// that does not begin after the operation's start is the one that counts it, and a cell
// that counts an operation is not dropped.
//
// The clock is read before the shard's lock is taken, so an operation may start before
// others that are counted already. It is counted in the cell that holds its start, or in a
// new one between the others.
//
// Any two neighbours that compact leaves are together more than 1/16 as wide as the time
// from their end to now. So with each two cells further back, that time grows by a factor
// of 17/16, and there are at most 33·ln(t) + 40 cells if the oldest operation is t·ageUnit
// old: 450 for an hour, 940 for 300 years. The slice has room for at most four times as
// many, and compact, which takes one step a cell, fills at most half of it. So that
// is at most two steps for each cell that is added, and a shard adds a cell for at most
// one in ageUnit of its operations that start in order.
//
// ages is not safe for concurrent use: the shard's lock guards it.
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
	ageError = 16                     // a merged cell is at most 1/ageError as wide as its operations are old
	minCells = 32                     // to add before compact is called again
)

// upTo returns the number of cells that do not begin after start.
func (a *ages) upTo(start time.Duration) int {
	n := len(a.cells)
	if n > 0 && a.cells[n-1].start <= start { // most operations are short
		return n
	}
	return sort.Search(n, func(i int) bool { return a.cells[i].start > start })
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
		case last >= 0 && c.end-kept[last].start <= (now-c.end)/ageError:
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
