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

// takeAll appends everything in from, which is not empty, to l and leaves from empty.
func (l *taskList) takeAll(from *taskList) {
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

// gap is a hole in a list: entries that stood side by side have been taken out, and
// their neighbours still point into it. It is opened and closed under one hold of the
// list's lock. Taking a run of entries out this way writes two pointers for the run
// instead of two for each; who cancels a batch usually added it as one.
type gap struct{ before, after *TaskEntry }

// take takes e out of its list. If that closed an earlier gap, and the list was empty
// but for it, its root is returned, nil otherwise.
func (g *gap) take(e *TaskEntry) (emptied *TaskEntry) {
	if e != g.after {
		emptied = g.close()
		g.before = e.prev
	}
	g.after = e.next
	e.next, e.prev = nil, nil
	return emptied
}

// close joins what stands on both sides of the gap, if there is one, and returns what
// take returns. The gap is done with then, or opened anew at once.
func (g *gap) close() (emptied *TaskEntry) {
	before, after := g.before, g.after
	if before == nil {
		return nil
	}
	before.next, after.prev = after, before
	if before == after {
		return before
	}
	return nil
}
