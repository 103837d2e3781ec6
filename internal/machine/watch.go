package machine

import "unsafe"

// Watch is the element of a watcher list that stands for one operation under one key.
// The watch of the first key lies inside the operation; those of the other keys lie in
// an array that the operation owns.
//
// The lock that guards the list guards next and prev. list, machine and position are
// set while the watch is linked. They belong to the operation's holder, or to
// the goroutine that takes the watch out after the holder has made it stale.
type Watch struct {
	next, prev *Watch
	list       *List
	machine    *Machine // nil in a Marker
	position   int64
}

// Host is what a List is part of.
type Host interface {
	// End ends m, which the caller holds, with o: it takes m out of its lists and out of
	// the timer, settles it and runs its callbacks.
	End(m *Machine, o Outcome, cause *error)
}

// List is a ring of watches in the order in which they were linked. It is not safe
// for concurrent use: the lock of the watcher shard that owns it guards it. See docs/decisions.md#lists-are-linked.
type List struct {
	root Watch // only next, prev and position are used; position counts the operations
	host Host
}

// Init makes l an empty list that is part of host.
func (l *List) Init(host Host) {
	l.root.next, l.root.prev = &l.root, &l.root
	l.host = host
}

// Host returns what l is part of.
func (l *List) Host() Host { return l.host }

// Len returns the number of operations in l, not counting markers.
func (l *List) Len() int { return int(l.root.position) }

// First returns the first element, nil if there is none.
func (l *List) First() *Watch { return l.element(l.root.next) }

// Last returns the last element, nil if there is none.
func (l *List) Last() *Watch { return l.element(l.root.prev) }

// Next returns the element after w, nil if w is the last.
func (l *List) Next(w *Watch) *Watch { return l.element(w.next) }

// Prev returns the element before w, nil if w is the first.
func (l *List) Prev(w *Watch) *Watch { return l.element(w.prev) }

func (l *List) element(w *Watch) *Watch {
	if w == &l.root {
		return nil
	}
	return w
}

// Link inserts the i-th watch of m behind after, or at the front if after is nil.
func (l *List) Link(m *Machine, i int, position int64, after *Watch) {
	l.insert(m.Watch(i), m, position, after)
	l.root.position++
}

// Marker is an element that stands for no operation: it says how far walks have come, or where a position
// is.
type Marker struct {
	Watch
	Users int     // how many need it where it is
	Fixed bool    // it must not join another one
	Into  *Marker // which it has joined, because no operation stood between: then it is in no list
}

// Mark inserts m behind after, or at the front if after is nil.
func (l *List) Mark(m *Marker, position int64, after *Watch) {
	l.insert(&m.Watch, nil, position, after)
}

// Marker returns the marker that w is part of. It must not be called for the watch of an operation.
func (w *Watch) Marker() *Marker { return (*Marker)(unsafe.Pointer(w)) }

// Element returns m as an element of its list, nil if m is nil.
func (m *Marker) Element() *Watch { return (*Watch)(unsafe.Pointer(m)) }

func (l *List) insert(w *Watch, m *Machine, position int64, after *Watch) {
	if after == nil {
		after = &l.root
	}
	w.list, w.machine, w.position = l, m, position
	w.prev, w.next = after, after.next
	after.next.prev, after.next = w, w
}

// Unlink takes w out of the list that it is in.
func (w *Watch) Unlink() {
	if w.machine != nil {
		w.list.root.position--
	}
	w.prev.next, w.next.prev = w.next, w.prev
	// machine may stay: w lies in the operation, so it keeps nothing else in memory.
	w.next, w.prev, w.list = nil, nil, nil
}

// List returns the list that w is in, nil if it is in none. Only the holder may call
// it, or the goroutine that takes out w after the holder has made it stale.
func (w *Watch) List() *List { return w.list }

// Machine returns the machine of the operation, nil if w is a marker.
func (w *Watch) Machine() *Machine { return w.machine }

// Position returns the position at which w was linked.
func (w *Watch) Position() int64 { return w.position }

// extra returns the number of watches beyond the first.
func (m *Machine) extra() int { return int(m.word().Load() >> extraShift) }

// Watch returns the i-th watch. Only the holder may call it. The first call for a watch
// beyond the first allocates the array of all of them, unless Lend has provided one.
//
// The conversions are safe because tail of an operation that has not ended is nil or
// points to an array of extra() Watches.
func (m *Machine) Watch(i int) *Watch {
	if i == 0 {
		return &m.first
	}
	if m.tail == nil {
		m.tail = unsafe.Pointer(unsafe.SliceData(make([]Watch, m.extra())))
	}
	return &unsafe.Slice((*Watch)(m.tail), m.extra())[i-1]
}

// Keys returns how many keys a waiting operation waits for.
func (m *Machine) Keys() int { return m.extra() + 1 }

// First returns the watch of the first key.
func (m *Machine) First() *Watch { return &m.first }

// Extra returns the watches beyond the first, nil if there are none. Only the holder
// may call it.
//
// The conversion is safe for the same reason as that of Watch. After settle, extra() is
// 0 and tail may point to an error, which an empty slice does not read.
func (m *Machine) Extra() []Watch {
	if m.tail == nil {
		return nil
	}
	return unsafe.Slice((*Watch)(m.tail), m.extra())
}
