package meter

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// unmet stands for a deadline that nobody has answered.
const unmet = math.MinInt64

// Lateness records, for n deadlines, how late each was met. Due and Met may be called from any goroutine, each index by
// one goroutine at a time; the rest only after Done is closed.
type Lateness struct {
	Done chan struct{} // closed when every deadline has been met

	base time.Time
	due  []int64
	late []int64

	// left counts, in stripes of the indices, the deadlines that have not been met, and
	// open the stripes that have any: one counter would be written by every expiry, on
	// every processor.
	left [stripes]struct {
		atomic.Int64
		_ [56]byte
	}
	open atomic.Int64
}

const stripes = 64

// NewLateness returns a recorder for n deadlines, its memory touched.
func NewLateness(n int) *Lateness {
	l := &Lateness{Done: make(chan struct{}), base: time.Now(), due: make([]int64, n), late: make([]int64, n)}
	for i := range l.due {
		l.due[i], l.late[i] = 0, unmet
	}
	for i := range min(n, stripes) {
		l.left[i].Store(int64((n - i + stripes - 1) / stripes))
	}
	l.open.Store(int64(min(n, stripes)))
	return l
}

// Due notes that deadline i is d from now. Call it before the timer is started: a timer reads the clock later than this,
// so an expiry that is early by this measure is early.
func (l *Lateness) Due(i int, d time.Duration) {
	l.due[i] = int64(time.Since(l.base) + d)
}

// Met notes that deadline i has been answered now.
func (l *Lateness) Met(i int) {
	l.late[i] = int64(time.Since(l.base)) - l.due[i]
	if l.left[i%stripes].Add(-1) == 0 && l.open.Add(-1) == 0 {
		close(l.Done)
	}
}

// Left returns how many deadlines have not been met.
func (l *Lateness) Left() (n int) {
	for i := range l.left {
		n += int(l.left[i].Load())
	}
	return n
}

// Sorted returns the recorded lateness of what was met, ascending.
func (l *Lateness) Sorted() []time.Duration {
	out := make([]time.Duration, 0, len(l.late))
	for _, v := range l.late {
		if v != unmet {
			out = append(out, time.Duration(v))
		}
	}
	slices.Sort(out)
	return out
}

// Early returns how many of an ascending sequence lie before zero.
func Early(sorted []time.Duration) int {
	n, _ := slices.BinarySearch(sorted, 0)
	return n
}

// Quantile returns the q-quantile (0..1) of an ascending sequence, 0 when it is empty.
func Quantile[T ~int64 | ~float64](sorted []T, q float64) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
