// Package entry has the elements of a timer's lists. An [Entry] is the first field of a timer.TaskEntry, and of
// an operation's machine.
package entry

import (
	"math/bits"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/sched"
)

// Expire is what a timer calls, with no lock held, when an operation's entry has expired. Package
// internal/machine sets it.
var Expire func(e *Entry)

// Link ties an [Entry] into a [List]. The lock of the entry's shard guards it. It is zero outside of a list.
type Link struct{ Next, Prev *Link }

// Entry stands for one timeout. It must not be copied.
type Entry struct {
	Link // first: a List converts pointers

	// At is the deadline on the timer's clock, in ns; the same lock guards it. 0: never added. > 0: scheduled. < 0:
	// expired, with ExpiredBit set; that bit alone: cancelled.
	At int64

	// Word has the binding in its lower half. The upper one is for the object that the entry is part of, which
	// takes its first state and its binding in one step.
	Word sched.Uint64
}

// ExpiredBit is the sign bit, set in the deadline of an expired entry.
const ExpiredBit = -1 << 63

// A binding has the entry's shard, the identity of its owner, and whether that is an operation's purgatory. The owner of
// another entry is a timer, or nobody yet.
const (
	shardBits    = 8 // enough for 256 shards
	operationBit = 1 << shardBits
)

var _ [identity.Shift - (shardBits + 1)]struct{} // fails to compile unless the identity's bits are free

// shard hashes the page of e: a processor allocates from its own pages. The conversion is safe: the address is
// hashed once, so the object may move. See docs/internals/decisions.md#a-pages-hash-is-reversed.
func (e *Entry) shard() uint64 {
	page := uint64(uintptr(unsafe.Pointer(e))) >> 13
	return uint64(bits.Reverse8(uint8(page * 0x9e3779b97f4a7c15 >> 56))) // 2^64/φ (Knuth, multiplicative hashing)
}

// Bind binds e, of a TaskEntry that no other goroutine sees yet. The conversion is safe: a Uint64 begins with its
// value.
func (e *Entry) Bind() { *(*uint64)(unsafe.Pointer(&e.Word)) = e.shard() }

// OperationBinding returns the binding of an operation's entry, in the purgatory with this identity, which must
// add it to one timer only.
func (e *Entry) OperationBinding(id uint32) uint64 {
	return e.shard() | uint64(id)<<identity.Shift | operationBit
}

// Shard returns the index of e's shard in a timer with n shards, a power of two.
func (e *Entry) Shard(n int) int { return int(uint32(e.Word.Load())) & (n - 1) }

// Free reports whether e, which is no operation's, has no owner.
func (e *Entry) Free() bool { return identity.In(e.Word.Load()) == 0 }

// Claim makes the timer with this identity the owner of e, which is no operation's, unless it has one.
func (e *Entry) Claim(id uint32) bool {
	word := e.Word.Load()
	return identity.In(word) == 0 && e.Word.CompareAndSwap(word, word|uint64(id)<<identity.Shift)
}

// OwnedBy reports whether the timer with this identity is the owner of e, or e is an operation's.
func (e *Entry) OwnedBy(id uint32) bool {
	word := e.Word.Load()
	return identity.In(word) == id || word&operationBit != 0
}

// OfOperation reports whether e is bound to an operation.
func (e *Entry) OfOperation() bool { return e.Word.Load()&operationBit != 0 }

// Deadline returns when e expires or has expired, otherwise 0. The lock of e's shard is held, or nobody changes
// e.
func (e *Entry) Deadline() time.Duration { return time.Duration(e.At &^ ExpiredBit) }

// Linked reports whether e is in a list. (Chains of ended operations use Next only.)
func (e *Entry) Linked() bool { return e.Prev != nil }

// Unlink removes e from its list, which need not be known.
func (e *Entry) Unlink() {
	e.Next.Prev, e.Prev.Next = e.Prev, e.Next
	e.Link = Link{}
}

// List is a ring of entries around a root. Call Init first. It is not safe for concurrent use.
type List struct{ root Link }

// Init empties l.
func (l *List) Init() { l.root = Link{&l.root, &l.root} }

// Empty reports whether l has no entry.
func (l *List) Empty() bool { return l.root.Next == &l.root }

// First returns the first entry of l, which is not empty. The conversion is safe: an Entry begins with its Link.
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
