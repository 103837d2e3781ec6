package timer

// taskList is a doubly linked ring of entries around a root: a bucket of a wheel, or another
// list of a shard. It is not safe for concurrent use. An entry can be removed without
// knowing its list. So a whole bucket can move to another list in O(1), and its entries can
// still be cancelled.
type taskList struct {
	// Only next, prev and deadline of root are used. In a bucket of a wheel deadline is the
	// bucket's position in the wheel plus one; in any other list it is 0.
	root TaskEntry
}

func (l *taskList) init() {
	l.root.next, l.root.prev = &l.root, &l.root
}

func (l *taskList) empty() bool { return l.root.next == &l.root }

func (l *taskList) pushBack(e *TaskEntry) {
	last := l.root.prev
	e.prev, e.next = last, &l.root
	last.next, l.root.prev = e, e
}

// takeAll moves all entries of from, which is not empty, to the end of l.
func (l *taskList) takeAll(from *taskList) {
	first, last := from.root.next, from.root.prev
	from.init()
	tail := l.root.prev
	tail.next, first.prev = first, tail
	last.next, l.root.prev = &l.root, last
}

// unlink removes e from its list. It returns the list's root if the list is empty now, nil
// otherwise.
func unlink(e *TaskEntry) (emptied *TaskEntry) {
	prev, next := e.prev, e.next
	prev.next, next.prev = next, prev
	e.next, e.prev = nil, nil
	if prev == next {
		return prev
	}
	return nil
}
