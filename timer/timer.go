package timer

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
)

// Timer is a [SystemTimer] or a [ManualTimer]. It is safe for concurrent use. Only AdvanceClock blocks.
type Timer interface {
	// Now returns the time since the timer's start.
	Now() time.Duration

	// Entries returns what has the other methods.
	Entries() *Entries
}

// Entries has the methods of a [ManualTimer], which a [SystemTimer] has, too. Arguments of calls through an interface
// would be allocated.
type Entries = store

// Task is what a timer runs when an entry's deadline has passed.
type Task interface {
	// RunTask is called when e has expired, with no lock of the timer held: by a [SystemTimer] on a worker, by
	// a [ManualTimer] on the goroutine that moves the clock. It may call any method of the timer.
	RunTask(e *TaskEntry)
}

// TaskEntry links one task into a timer. The caller embeds it in a larger object, binds it to a task, and may add it
// again after it has expired or was cancelled. The first timer that accepts it keeps it until it is bound again; the
// others refuse it. After [TaskEntry.Bind] it is safe for concurrent use. It must not be copied.
type TaskEntry struct {
	entry entry.Entry
	bound Task // nil until it is bound
}

// taskEntry returns the TaskEntry that begins with e. The conversion is safe: of an operation's, only e is used.
func taskEntry(e *entry.Entry) *TaskEntry { return (*TaskEntry)(unsafe.Pointer(e)) }

var _ [-unsafe.Offsetof(TaskEntry{}.entry)]struct{} // fails to compile unless entry is the first field

// Bind sets the task that runs when e expires. Call it before other goroutines use e; and again to add e to another
// timer, while no goroutine uses e, and no worker is about to run its task, as where Cancel has returned false. It panics
// if e is scheduled.
func (e *TaskEntry) Bind(task Task) {
	if e.entry.Linked() {
		panic("timer: Bind of an entry that is scheduled")
	}
	e.bound = task
	e.entry.Bind()
}

// Errors of this package, for [errors.Is].
var (
	ErrInvalid = errors.New("timer: invalid argument")
	ErrStopped = errors.New("timer: stopped")
	ErrFull    = errors.New("timer: too many pending entries")

	errScheduled = fmt.Errorf("%w: the entry is scheduled already", ErrInvalid)
	errForeign   = fmt.Errorf("%w: the entry belongs to another timer until it is bound again", ErrInvalid)
)

// Never is the latest deadline. No clock reaches it.
const Never = time.Duration(math.MaxInt64 - 1)

// Deadline returns now+timeout. A negative timeout counts as 0, and the result is at most [Never].
func Deadline(now, timeout time.Duration) time.Duration {
	d := now + max(timeout, 0)
	if d < now || d > Never { // overflow
		return Never
	}
	return d
}

// within clamps d to the deadlines that a scheduled entry can have, 1 ns to Never.
func within(d time.Duration) int64 { return max(int64(min(d, Never)), 1) }
