package timer

import "github.com/delayedop/purgatory/internal/entry"

// taskList is a doubly linked ring of entries around a root: a bucket of a wheel, or another
// list of a shard. It is not safe for concurrent use. An entry can be removed without
// knowing its list. So a whole bucket can move to another list in O(1), and its entries can
// still be cancelled.
type taskList struct {
	// Only Next, Prev and At of root are used. In a bucket of a wheel At is the
	// bucket's position in the wheel plus one; in any other list it is 0.
	root entry.Entry
}

func (l *taskList) init() {
	l.root.Next, l.root.Prev = &l.root, &l.root
}

func (l *taskList) empty() bool { return l.root.Next == &l.root }

func (l *taskList) pushBack(e *entry.Entry) {
	last := l.root.Prev
	e.Prev, e.Next = last, &l.root
	last.Next, l.root.Prev = e, e
}

// takeAll moves all entries of from, which is not empty, to the end of l.
func (l *taskList) takeAll(from *taskList) {
	first, last := from.root.Next, from.root.Prev
	from.init()
	tail := l.root.Prev
	tail.Next, first.Prev = first, tail
	last.Next, l.root.Prev = &l.root, last
}

// unlink removes e from its list. It returns the list's root if the list is empty now, nil
// otherwise.
func unlink(e *entry.Entry) (emptied *entry.Entry) {
	prev, next := e.Prev, e.Next
	prev.Next, next.Prev = next, prev
	e.Next, e.Prev = nil, nil
	if prev == next {
		return prev
	}
	return nil
}
