package watchers

import (
	"slices"
	"sort"

	"github.com/delayedop/purgatory/internal/machine"
)

// link inserts the i-th watch of m into the ordered list, behind all watches whose
// position is not greater.
//
// Operations that wait for positions of a log mostly arrive in order. So link looks for
// the place from the end of the list, which takes one step for the highest position. If
// the place is not among the last nearEnd elements, link uses the index.
func (l *keyList[K]) link(m *machine.Machine, i int, position int64) {
	if l.ordered == nil {
		l.ordered = &orderedList{signalled: AnyPosition}
		l.ordered.Init(l)
	}
	list := l.ordered
	after := list.Last()
	for steps := 0; after != nil && after.Position() > position; steps++ {
		if steps == nearEnd {
			after = list.index.find(&list.List, position)
			break
		}
		after = list.Prev(after)
	}
	appended := after == list.Last()
	list.Link(m, i, position, after)
	if appended {
		list.index.appended(&list.List)
	}
}

const (
	nearEnd = 32 // number of elements at the end that link searches without the index
	segment = 64 // number of operations between two markers of a new index
)

// positionIndex finds a place in a long ordered list. It is a sorted array of markers
// that stand in the list itself. A binary search over the markers is followed by a walk
// from the marker that was found.
//
// Removing an operation does not touch the index. If there are too many markers for the
// operations that are left, find and appended build the index again. The cost of that is
// amortized over the insertions between the markers. The index exists from the first
// insertion that is far from the end until the key leaves the map.
type positionIndex struct {
	markers []*machine.Watch
	behind  int // number of operations appended since appended has added a marker
}

// find returns the last element whose position is not greater than position, nil if
// there is none.
//
// In a new index the walk passes at most segment operations. If many operations have
// been inserted behind one marker since then, the walk is longer. After a walk over more
// than two segments, find adds a marker at its end, for the next walk to that place.
func (x *positionIndex) find(list *machine.List, position int64) *machine.Watch {
	if len(x.markers) == 0 || len(x.markers) > 8+2*list.Len()/segment {
		x.build(list)
	}
	i := sort.Search(len(x.markers), func(i int) bool { return x.markers[i].Position() > position })
	var at *machine.Watch
	next := list.First()
	if i > 0 {
		at = x.markers[i-1]
		next = list.Next(at)
	}
	steps := 0
	for ; next != nil && next.Position() <= position; steps++ {
		at, next = next, list.Next(next)
	}
	if steps > 2*segment {
		at = addMarker(list, at) // the caller links its watch behind the new marker
		x.markers = slices.Insert(x.markers, i, at)
	}
	return at
}

// appended must be called after an operation was linked at the end.
func (x *positionIndex) appended(list *machine.List) {
	if x.markers == nil {
		return
	}
	if x.behind++; x.behind >= segment {
		x.behind = 0
		x.markers = append(x.markers, addMarker(list, list.Last()))
		if len(x.markers) > 8+2*list.Len()/segment {
			x.build(list)
		}
	}
}

// addMarker inserts a new marker behind w, with the position of w.
func addMarker(list *machine.List, w *machine.Watch) *machine.Watch {
	marker := new(machine.Watch)
	list.Mark(marker, w.Position(), w)
	return marker
}

// build replaces all markers by new ones, a segment apart.
func (x *positionIndex) build(list *machine.List) {
	x.reset()
	x.markers = make([]*machine.Watch, 0, list.Len()/segment+1)
	n := 0
	for w := list.First(); w != nil; w = list.Next(w) {
		if n++; n%segment == 0 {
			w = addMarker(list, w)
			x.markers = append(x.markers, w)
		}
	}
}

// reset takes the markers out of the list.
func (x *positionIndex) reset() {
	for _, marker := range x.markers {
		marker.Unlink()
	}
	*x = positionIndex{}
}
