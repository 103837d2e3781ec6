package timer

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/expiry"
	"github.com/delayedop/purgatory/internal/identity"
)

// Task is what a timer runs when an entry's deadline has passed.
type Task interface {
	// RunTask is called once for each time that e expires, with no lock of the timer
	// held: by a [SystemTimer] on one of its workers, by a [ManualTimer] on the
	// goroutine that advances the clock. It may call any method of the timer. If it
	// blocks, that worker or that goroutine waits.
	RunTask(e *TaskEntry)
}

// TaskEntry links one task into a timer. The caller owns it: the caller allocates it or
// embeds it in a larger object, binds it to a task once with [TaskEntry.Bind], and may add
// it again after it has expired or was cancelled. It belongs to the timer that first
// accepted it; other timers refuse it. After Bind, the timer's methods on it are safe for
// concurrent use. It must not be copied.
type TaskEntry struct {
	// next and prev are nil unless the entry is in a list. The lock of the entry's
	// shard guards them.
	next, prev *TaskEntry

	// deadline is the time on the timer's clock at which the entry expires, in
	// nanoseconds; the same lock guards it. 0: never added. > 0: scheduled.
	// cancelled: cancelled. Any other negative value: expired, with expiredBit set
	// in the deadline.
	deadline int64

	task any // what Bind was given, a Task; or what SetOwner was given, an operation

	// word is the entry's binding, in its lower half. Its upper half is for the object
	// that embeds the entry: the wheels neither read nor write that half. The two share a
	// word so that an operation takes its first state and its binding in one step.
	word atomic.Uint64
}

// binding says to which shard an entry belongs, in any timer, and who owns it: the timer
// that first accepted it, or the purgatory in which its operation waits. The owner is 0
// before that. A bit distinguishes the two kinds of owners.
type binding uint32

const (
	shardBits    = 6 // enough for 64 shards
	operationBit = 1 << shardBits
)

var _ [identity.Shift - (shardBits + 1)]struct{} // fails to compile unless the owner's bits are left free

// unowned returns the binding of an entry without an owner. Its shard is a hash of the
// 8 KiB page that e lies on. A processor allocates from pages of its own, so the entries
// that one processor adds fall into one shard for a while, and those of another processor
// mostly into another shard.
//
// The conversion of the pointer is safe: the address is hashed once and never converted
// back, so the result stays valid even if the object moves.
func unowned(e *TaskEntry) binding {
	page := uint64(uintptr(unsafe.Pointer(e))) >> 13
	return binding(page * 0x9e3779b97f4a7c15 >> (64 - shardBits)) // 2^64/φ (Knuth, multiplicative hashing)
}

// byOperation reports whether the owner is an operation's purgatory.
func (b binding) byOperation() bool { return b&operationBit != 0 }

func (b binding) owner() uint32 { return identity.In(uint64(b)) }

// withOwner returns b, which has no owner, with one.
func (b binding) withOwner(owner uint32) binding { return b | binding(owner<<identity.Shift) }

func (e *TaskEntry) binding() binding { return binding(e.word.Load()) }

// Bind sets the task that runs when e expires. Call it once, before other goroutines use e.
func (e *TaskEntry) Bind(task Task) { e.bind(task, 0) }

// bind is Bind for an entry that belongs to the timer with identity owner from the start.
//
// No other goroutine sees e yet, so the write need not be atomic: an atomic one takes 5 ns,
// of the 70 of AfterFunc and Stop. The conversion is safe: an atomic.Uint64 is a uint64.
func (e *TaskEntry) bind(task Task, owner uint32) {
	e.task = task
	*(*uint64)(unsafe.Pointer(&e.word)) = uint64(unowned(e).withOwner(owner))
}

// Word returns the word whose lower half is e's binding and whose upper half is for the
// operation that embeds e. An operation binds e by writing the result of
// [TaskEntry.OperationBinding] there, and calling [TaskEntry.SetOwner], instead of Bind. When
// e expires, the operation then ends as expired. Timers accept every entry of an operation,
// so its purgatory must add e to one timer only. Word is for the state machine of operations.
func (e *TaskEntry) Word() *atomic.Uint64 { return &e.word }

// OperationBinding returns the binding of an entry of an operation whose purgatory has the
// identity id.
func (e *TaskEntry) OperationBinding(id uint32) uint64 {
	return uint64(unowned(e).withOwner(id) | operationBit)
}

// SetOwner sets the operation that ends when e expires. The caller has just bound e to it.
func (e *TaskEntry) SetOwner(operation any) { e.task = operation }

// Owner returns what e is bound to, an operation or a [Task]; nil if it is bound to nothing.
func (e *TaskEntry) Owner() any { return e.task }

// Task returns the task that Bind bound e to, nil if there is none.
func (e *TaskEntry) Task() Task {
	if e.binding().byOperation() {
		return nil
	}
	task, _ := e.task.(Task)
	return task
}

// run runs e's task, or ends e's operation as expired. The caller has claimed e.
func (e *TaskEntry) run() {
	if e.binding().byOperation() {
		expiry.Expired(e.task)
		return
	}
	e.task.(Task).RunTask(e)
}

// Deadline returns the time, on the timer's clock, at which e expires or has expired; 0 if
// e was never added or was cancelled. It takes no lock. Call it only where no other
// goroutine can add, extend, cancel or expire e meanwhile, in e's task for instance;
// elsewhere call [Timer.DeadlineOf].
func (e *TaskEntry) Deadline() time.Duration {
	if e.deadline == cancelled {
		return 0
	}
	return time.Duration(e.deadline &^ expiredBit)
}
