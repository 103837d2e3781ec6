package timer

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/expiry"
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

	task any // what Bind was given, a Task; or what BindOwner was given, an operation

	// tag is an entry's binding. In the root of a bucket it is the bucket's position in
	// its wheel plus one; in the root of any other list it is 0. It is no atomic.Uint32
	// because Bind writes it before other goroutines see the entry: that need not be atomic.
	tag uint32

	// word is for the object that embeds the entry: the wheels neither read nor write
	// it. It occupies bytes that alignment would leave unused.
	word atomic.Uint32
}

// binding says to which shard an entry belongs, in any timer, and who owns it: the timer
// that first accepted it, or the purgatory in which its operation waits. The owner is 0
// before that. A bit distinguishes the two kinds of owners. All is in one word, so that a
// goroutine without a lock reads a consistent binding.
type binding uint32

const (
	shardBits    = 6 // enough for 64 shards
	operationBit = 1 << shardBits
	ownerShift   = shardBits + 1 // identity.Bits bits are left for the owner
)

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

func (b binding) owner() uint32 { return uint32(b >> ownerShift) }

// withOwner returns b with another owner.
func (b binding) withOwner(owner uint32) binding {
	return b&(1<<ownerShift-1) | binding(owner<<ownerShift)
}

func (e *TaskEntry) binding() binding { return binding(atomic.LoadUint32(&e.tag)) }

// Bind sets the task that runs when e expires. Call it once, before other goroutines use e.
func (e *TaskEntry) Bind(task Task) { e.bind(task, 0) }

// bind is Bind for an entry that belongs to the timer with identity owner from the start.
func (e *TaskEntry) bind(task Task, owner uint32) {
	e.task = task
	e.tag = uint32(unowned(e).withOwner(owner))
}

// BindOwner binds e to an operation instead of a task: when e expires, the operation ends
// as expired. id is the identity of the operation's purgatory. Timers accept every entry of
// an operation, so the purgatory must add e to one timer only. BindOwner is for the state
// machine of operations.
func (e *TaskEntry) BindOwner(owner any, id uint32) {
	e.task = owner
	// After task, so that a goroutine that reads the identity sees the owner.
	atomic.StoreUint32(&e.tag, uint32(unowned(e).withOwner(id)|operationBit))
}

// Release undoes BindOwner, for an operation that was refused. e must not be scheduled.
func (e *TaskEntry) Release() {
	atomic.StoreUint32(&e.tag, 0)
	e.task = nil
}

// Owner returns what e is bound to, an operation or a [Task]; nil if it is bound to nothing.
func (e *TaskEntry) Owner() any { return e.task }

// OwnerID returns the identity that BindOwner was given, 0 if e is bound to no operation.
// It may be called at any time.
func (e *TaskEntry) OwnerID() uint32 {
	b := e.binding()
	if !b.byOperation() {
		return 0
	}
	return b.owner()
}

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

// Word returns 32 bits for the object that embeds e, 0 at first. Timers neither read nor
// write them.
func (e *TaskEntry) Word() *atomic.Uint32 { return &e.word }

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
