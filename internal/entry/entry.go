// Package entry is what a timer's lists consist of. An [Entry] is the first field of a timer.TaskEntry, and of
// each operation's machine.
package entry

import (
	"math"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/sched"
)

// Expire is what a timer calls, with no lock held, when the entry of an operation has expired. Package
// internal/machine sets it when the program begins.
var Expire func(e *Entry)

// Link ties an [Entry] into a [List]. The lock of the entry's shard guards it. Both fields are nil outside of a
// list.
type Link struct{ Next, Prev *Link }

// Entry is the element of a timer's lists that stands for one timeout. It must not be copied.
type Entry struct {
	Link // first: a List converts pointers

	// At is the deadline in nanoseconds on the timer's clock; the same lock guards it. 0: never added, or
	// cancelled. > 0: scheduled. < 0: expired, with ExpiredBit set in the deadline.
	At int64

	// Word has the entry's binding in its lower half. The upper one is for the object that the entry is part
	// of, which so takes its first state and its binding in one step.
	Word sched.Uint64
}

// ExpiredBit is the sign bit, set in the deadline of an expired entry.
const ExpiredBit = math.MinInt64

// A binding says to which shard of any timer an entry belongs, and whether it is an operation's;
// then it has the identity of the purgatory in which the operation waits.
const (
	shardBits    = 8 // enough for 256 shards
	operationBit = 1 << shardBits
)

var _ [identity.Shift - (shardBits + 1)]struct{} // fails to compile unless the identity's bits are free

// shard hashes the 8 KiB page that e lies on: a processor allocates from its own pages. The conversion is safe:
// the address is hashed once, so the object may move.
func (e *Entry) shard() uint64 {
	page := uint64(uintptr(unsafe.Pointer(e))) >> 13
	return page * 0x9e3779b97f4a7c15 >> (64 - shardBits) // 2^64/φ (Knuth, multiplicative hashing)
}

// Bind binds e, which is part of a TaskEntry and which no other goroutine sees yet. The conversion is safe: a
// Uint64 begins with its value.
func (e *Entry) Bind() { *(*uint64)(unsafe.Pointer(&e.Word)) = e.shard() }

// OperationBinding returns the binding of an operation's entry, in the purgatory with this identity. Every
// timer accepts such an entry, so the purgatory must add it to one only.
func (e *Entry) OperationBinding(id uint32) uint64 {
	return e.shard() | uint64(id)<<identity.Shift | operationBit
}

// Shard returns the index of e's shard in a timer with n shards, a power of two.
func (e *Entry) Shard(n int) int { return int(uint32(e.Word.Load())) & (n - 1) }

// OfOperation reports whether e is bound to an operation.
func (e *Entry) OfOperation() bool { return e.Word.Load()&operationBit != 0 }

// Deadline returns when e expires or has expired, on the timer's clock; 0 if it was never added or was
// cancelled. The lock of e's shard is held, or nobody changes e.
func (e *Entry) Deadline() time.Duration { return time.Duration(e.At &^ ExpiredBit) }

// Linked reports whether e is in a list. (Chains of ended operations use Next only.)
func (e *Entry) Linked() bool { return e.Prev != nil }

// Unlink removes e from its list, which need not be known: so a whole list can move to another one in O(1).
func (e *Entry) Unlink() {
	e.Next.Prev, e.Prev.Next = e.Prev, e.Next
	e.Link = Link{}
}

// List is a doubly linked ring of entries around a root. Call Init before its first use. It is not safe for
// concurrent use.
type List struct{ root Link }

// Init empties l.
func (l *List) Init() { l.root = Link{&l.root, &l.root} }

// Empty reports whether l has no entry.
func (l *List) Empty() bool { return l.root.Next == &l.root }

// First returns the first entry of l, which is not empty. The conversion is safe: an Entry begins with its
// Link.
func (l *List) First() *Entry { return (*Entry)(unsafe.Pointer(l.root.Next)) }

// All yields the entries of l, which must not change meanwhile.
func (l *List) All(yield func(*Entry) bool) {
	for at := l.root.Next; at != &l.root; at = at.Next {
		if !yield((*Entry)(unsafe.Pointer(at))) {
			return
		}
	}
}

// Push appends e, which is in no list.
func (l *List) Push(e *Entry) {
	last := l.root.Prev
	e.Next, e.Prev = &l.root, last
	last.Next, l.root.Prev = &e.Link, &e.Link
}

// Take moves all entries of from, which is not empty, to the end of l.
func (l *List) Take(from *List) {
	first, last, tail := from.root.Next, from.root.Prev, l.root.Prev
	tail.Next, first.Prev = first, tail
	last.Next, l.root.Prev = &l.root, last
	from.Init()
}
