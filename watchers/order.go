package watchers

import (
	"slices"
	"sort"

	"github.com/delayedop/purgatory/operation"
)

// link puts the i-th watch of m into the ordered list, behind all whose position
// is not greater.
//
// Waiters on a log come in order, or nearly so: the place is looked for from the
// end, which is O(1) for an append. If it is not near, the index finds it in
// O(log n) plus a walk of bounded length.
func (l *keyList[K]) link(m *operation.Machine, i int, position int64) {
	if l.ordered == nil {
		l.ordered = new(orderedList)
		l.ordered.Init(l)
	}
	l.ordered.link(m, i, position)
}

func (l *orderedList) link(m *operation.Machine, i int, position int64) {
	after := l.Last()
	for steps := 0; after != nil && after.Position() > position; steps++ {
		if steps == nearEnd {
			after = l.index.find(&l.List, position)
			break
		}
		after = l.Prev(after)
	}
	appended := after == l.Last()
	l.Link(m, i, position, after)
	if appended {
		l.index.appended(&l.List)
	}
}

const (
	nearEnd = 32 // how far from the end a place may be to be found without the index
	segment = 64 // distance of fences when they are set
)

// positionIndex finds a place in a long ordered list. It is a sorted array of
// fences, markers that stand in the list itself, about a segment apart. Removing
// an operation does not touch it; fences that have too little between them are
// set anew, at a cost that their number has paid for. It exists only from the first
// insertion that is far from the end, until the key is forgotten.
type positionIndex struct {
	fences []*operation.Watch
	behind int // operations appended since the last fence was set at the end
}

// find returns the last element whose position is not greater than position, nil
// if there is none. It walks over at most two segments, or splits them.
func (x *positionIndex) find(list *operation.List, position int64) *operation.Watch {
	if len(x.fences) == 0 || len(x.fences) > 8+2*list.Len()/segment {
		x.build(list)
	}
	i := sort.Search(len(x.fences), func(i int) bool { return x.fences[i].Position() > position })
	var at *operation.Watch
	next := list.First()
	if i > 0 {
		at = x.fences[i-1]
		next = list.Next(at)
	}
	steps := 0
	for ; next != nil && next.Position() <= position; steps++ {
		at, next = next, list.Next(next)
	}
	if steps > 2*segment {
		at = fence(list, at) // what is linked next goes behind it, for it may stand higher
		x.fences = slices.Insert(x.fences, i, at)
	}
	return at
}

// appended notes that an operation was linked at the end.
func (x *positionIndex) appended(list *operation.List) {
	if x.fences == nil {
		return
	}
	if x.behind++; x.behind >= segment {
		x.behind = 0
		x.fences = append(x.fences, fence(list, list.Last()))
		if len(x.fences) > 8+2*list.Len()/segment {
			x.build(list)
		}
	}
}

// fence sets a new one behind w.
func fence(list *operation.List, w *operation.Watch) *operation.Watch {
	f := new(operation.Watch)
	list.Mark(f, w.Position(), w)
	return f
}

// build sets all fences anew.
func (x *positionIndex) build(list *operation.List) {
	x.reset()
	x.fences = make([]*operation.Watch, 0, list.Len()/segment+1)
	n := 0
	for w := list.First(); w != nil; w = list.Next(w) {
		if n++; n%segment == 0 {
			w = fence(list, w)
			x.fences = append(x.fences, w)
		}
	}
}

// reset takes the fences out of the list.
func (x *positionIndex) reset() {
	for _, f := range x.fences {
		f.Unlink()
	}
	*x = positionIndex{}
}
