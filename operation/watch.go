package operation

import (
	"iter"
	"unsafe"

	"github.com/delayedop/purgatory/internal/prefetch"
)

// Watch is one key's hold on an operation: an element of a watcher list. It lies
// inside the operation (first key) or in an array that the operation owns (the
// others).
//
// next and prev are guarded by the lock that guards the list. list, machine and
// position belong to the operation's holder, and are set while linked.
type Watch struct {
	next, prev *Watch
	list       *List
	machine    *Machine // nil: a marker, see Mark
	position   int64
}

// Home is what stands behind a List.
type Home interface {
	// End ends m, which the caller holds, with o: takes it out of lists and timer,
	// settles it, runs its callbacks.
	End(m *Machine, o Outcome, cause *error)
}

// List is a ring of watches in the order in which they were linked. It is not safe
// for concurrent use: the watcher shard that owns it has the lock.
type List struct {
	root Watch // only next and prev are used; and position, to count the operations
	home Home
}

// Init makes l an empty list of home.
func (l *List) Init(home Home) {
	l.root.next, l.root.prev = &l.root, &l.root
	l.home = home
}

// Home returns what stands behind l.
func (l *List) Home() Home { return l.home }

// Len returns the number of operations in l; markers do not count.
func (l *List) Len() int { return int(l.root.position) }

// First returns the first element, nil if there is none; Last the last.
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

// Link puts the i-th watch of m behind after, or first if after is nil.
func (l *List) Link(m *Machine, i int, position int64, after *Watch) {
	w := m.watch(i)
	w.list, w.machine, w.position = l, m, position
	l.insert(w, after)
	l.root.position++
}

// Mark puts a marker behind after, or first if after is nil. A marker is no
// operation: it keeps a place while the list's lock is not held.
func (l *List) Mark(w *Watch, position int64, after *Watch) {
	w.list, w.machine, w.position = l, nil, position
	l.insert(w, after)
}

func (l *List) insert(w, after *Watch) {
	if after == nil {
		after = &l.root
	}
	w.prev, w.next = after, after.next
	after.next.prev, after.next = w, w
}

// prefetch asks for what Unlink writes besides w. For the holder.
func (w *Watch) prefetch() {
	prefetch.Line(unsafe.Pointer(w.list))
	prefetch.Neighbours(unsafe.Pointer(w))
}

var _ [-unsafe.Offsetof(Watch{}.next)]struct{} // next and prev come first

// Unlink takes w out of the list that it is in.
func (w *Watch) Unlink() {
	if w.machine != nil {
		w.list.root.position--
	}
	w.prev.next, w.next.prev = w.next, w.prev
	w.next, w.prev, w.list = nil, nil, nil // machine is the operation itself, it pins nothing
}

// Gap is a hole in a List: watches that stood side by side have been unlinked, and
// their neighbours still point into it. It is opened and closed under one hold of the
// list's lock. Unlinking a run of watches this way writes two pointers for the run
// instead of two for each; a batch that ends together mostly came together.
type Gap struct{ before, after *Watch }

// Unlink takes w, which is no marker, out of the list that it is in, and closes an
// earlier gap that w does not stand beside.
func (g *Gap) Unlink(w *Watch) {
	if w != g.after {
		g.Close()
		g.before = w.prev
	}
	g.after = w.next
	w.list.root.position--
	w.next, w.prev, w.list = nil, nil, nil // machine is the operation itself, it pins nothing
}

// Close joins what stands on both sides of the gap, if there is one.
func (g *Gap) Close() {
	if g.before != nil {
		g.before.next, g.after.prev = g.after, g.before
		g.before, g.after = nil, nil
	}
}

// List returns the list that w is in, nil if it is in none. For the holder.
func (w *Watch) List() *List { return w.list }

// Machine returns the machine of the operation, nil if w is a marker.
func (w *Watch) Machine() *Machine { return w.machine }

// Position returns the position at which w was linked.
func (w *Watch) Position() int64 { return w.position }

// extra returns the number of watches beyond the first.
func (m *Machine) extra() int { return int(m.word().Load() >> extraShift) }

// watch returns the i-th watch; it makes room for all on the second.
func (m *Machine) watch(i int) *Watch {
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

// Extra returns the watches beyond the first. For the holder.
func (m *Machine) Extra() []Watch {
	if m.tail == nil {
		return nil
	}
	return unsafe.Slice((*Watch)(m.tail), m.extra())
}

// Watches returns all watches. For the holder.
func (m *Machine) Watches() iter.Seq[*Watch] {
	return func(yield func(*Watch) bool) {
		if !yield(&m.first) {
			return
		}
		extra := m.Extra()
		for i := range extra {
			if !yield(&extra[i]) {
				return
			}
		}
	}
}
