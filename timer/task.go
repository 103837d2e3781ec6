package timer

import (
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/sched"
)

// Task is what a timer runs when an entry's deadline has passed.
type Task interface {
	// RunTask is called when e has expired, with no lock of the timer held: by a [SystemTimer] on a worker, by
	// a [ManualTimer] on the goroutine that moves the clock. It may call any method of the timer.
	RunTask(e *TaskEntry)
}

// TaskEntry links one task into a timer. The caller embeds it in a larger object, binds it to a task once with
// [TaskEntry.Bind], and may add it again, to any timer, after it has expired or was cancelled. After Bind it is safe for concurrent use. It must not be copied.
type TaskEntry struct {
	entry entry.Entry
	bound Task                 // nil until it is bound, constant afterwards
	owner sched.Pointer[store] // the timer to which it was added last; see adopt
}

// taskEntry returns the TaskEntry that begins with e. The conversion is safe: e is its first field, or an
// operation's, of which no more than e is used.
func taskEntry(e *entry.Entry) *TaskEntry { return (*TaskEntry)(unsafe.Pointer(e)) }

var _ [-unsafe.Offsetof(TaskEntry{}.entry)]struct{} // fails to compile unless entry is the first field

// Bind sets the task that runs when e expires. Call it once, before other goroutines use e.
func (e *TaskEntry) Bind(task Task) {
	e.bound = task
	e.entry.Bind()
}
