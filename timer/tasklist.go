package timer

// taskList is a doubly linked ring of entries around a root: a bucket of a
// wheel, or entries on their way out of one. It is not safe for concurrent use.
// An entry can leave the list that it is in without knowing which it is, so a
// whole bucket can move to another list in O(1) while its entries remain
// cancellable.
type taskList struct {
	root TaskEntry // only next, prev and where are used
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

// takeAll appends everything in from to l and leaves from empty.
func (l *taskList) takeAll(from *taskList) {
	if from.empty() {
		return
	}
	first, last := from.root.next, from.root.prev
	from.init()
	tail := l.root.prev
	tail.next, first.prev = first, tail
	last.next, l.root.prev = &l.root, last
}

// unlink takes e out of its list. If that emptied the list, its root is
// returned, nil otherwise.
func unlink(e *TaskEntry) (emptied *TaskEntry) {
	prev, next := e.prev, e.next
	prev.next, next.prev = next, prev
	e.next, e.prev = nil, nil
	if prev == next {
		return prev
	}
	return nil
}
