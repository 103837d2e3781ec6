package timer

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"
)

// Task is what runs when an entry's deadline has passed.
type Task interface {
	// RunTask is called once for each time that e expires, with no lock held:
	// by a SystemTimer on one of its workers, by a ManualTimer on the goroutine
	// that moves the clock. It may call anything on the timer.
	RunTask(e *TaskEntry)
}

// TaskEntry is a place in a timer for one task. It is owned by the caller, who
// embeds it in a larger object or allocates it, binds it to a task once, and
// may add it again after it expired or was cancelled. An entry is in at most
// one timer. The timer's methods on it are safe for concurrent use once it is
// bound.
type TaskEntry struct {
	// next and prev are guarded by the lock of the entry's shard, and nil
	// unless the entry is in a list.
	next, prev *TaskEntry

	// deadline is the time on the timer's clock at which the entry expires, in
	// nanoseconds, guarded by the same lock. 0: never added. > 0: scheduled.
	// cancelled: cancelled. Any other negative value: expired, with the sign bit set
	// on the deadline.
	deadline int64

	task Task

	// where is, of an entry, what decides its shard in any timer, set by Bind; of
	// the root of a bucket, one more than the bucket's position in its wheel; of
	// any other root, 0.
	where uint32

	// word belongs to whoever owns the entry: the timer neither reads nor
	// writes it. It fills what alignment would waste.
	word atomic.Uint32
}

const (
	fired     = math.MinInt64 // the sign bit, set on the deadline of an expired entry
	cancelled = -1            // sign bit and a deadline that saturation never gives

	// Never is the latest deadline: later ones saturate to it. It is 292 years
	// after the timer's start.
	Never = time.Duration(math.MaxInt64 - 1)
)

// Bind sets the task that runs when e expires. Call it once, before e is shared,
// and do not copy e afterwards.
//
// It also chooses e's shard, by a hash of the 8 KiB page that e lies on: a
// processor allocates from pages of its own, so entries that one processor adds
// fall into one shard for a while, and those of another mostly into another;
// nothing random has to be drawn. (The address is used once, so it would not
// matter if objects moved.)
func (e *TaskEntry) Bind(task Task) {
	page := uint64(uintptr(unsafe.Pointer(e))) >> 13
	e.where = uint32(page * 0x9e3779b97f4a7c15 >> 32) // 2^64/φ (Knuth, multiplicative hashing)
	e.task = task
}

// Task returns the task that e is bound to.
func (e *TaskEntry) Task() Task { return e.task }

// Word returns 32 bits for the use of the entry's owner, 0 at first. The timer
// leaves them alone.
func (e *TaskEntry) Word() *atomic.Uint32 { return &e.word }

// Deadline returns the time, on the timer's clock, at which e has expired; or
// expires; 0 if it was never added or is cancelled. It takes no lock: it is for e's
// task, and for who knows otherwise that nobody adds, extends, cancels or expires e
// meanwhile. See DeadlineOf.
func (e *TaskEntry) Deadline() time.Duration {
	if e.deadline == cancelled {
		return 0
	}
	return time.Duration(e.deadline &^ fired)
}

// Deadline returns now+timeout, not before now and not after Never.
func Deadline(now, timeout time.Duration) time.Duration {
	d := now + max(timeout, 0)
	if d < now || d > Never { // overflow
		return Never
	}
	return d
}

// within brings d into the range that a scheduled entry's deadline can have.
func within(d time.Duration) int64 { return int64(min(max(d, 1), Never)) }
