package watchers

import (
	"slices"
	"sort"

	"github.com/delayedop/purgatory/internal/machine"
)

// ordered is what a keyList needs as soon as an operation waits for a position of its key.
//
// The index finds a position in a long list. It is a sorted array of markers that stand in the
// list itself. A binary search over the markers is followed by steps from the marker that was
// found. They add a marker after every segment operations, and so the next way to that
// position is short.
//
// Removing an operation does not touch the index. A check drops the first markers, if no operation
// stands before them any more: the log has passed them. One that passes many markers in a row drops those, too. If the index has too many markers for the
// operations that still wait, lastUpTo empties it. The cost of both is amortized over the insertions
// between the markers.
type ordered struct {
	begin     machine.Marker    // the operations that wait for a position stand behind it
	index     []*machine.Marker // empty until an operation is inserted far from the end
	signalled int64             // the highest position of the signals for which no check has begun
}

const (
	nearEnd = 32 // number of elements at the end that lastUpTo searches without the index
	segment = 64 // number of operations between two markers of a new index
)

// lastUpTo returns the last element whose position is not greater, nil if there is none: an operation for
// this position is linked behind it. So operations that wait for no position
// come first, in order of arrival, and the others follow in order of position.
//
// Operations that wait for positions of a log mostly arrive in order. So lastUpTo searches from the
// end of the list, which takes one step for the highest position, and uses the index only if
// the element is not near the end.
func (l *keyList[K]) lastUpTo(position int64) *machine.Watch {
	if l.ordered == nil {
		l.ordered = &ordered{signalled: AnyPosition}
		l.ordered.begin.Users, l.ordered.begin.Fixed = 1, true
		l.Mark(&l.ordered.begin, AnyPosition, l.Last())
	}
	o := l.ordered
	if position == AnyPosition {
		return l.Prev(o.begin.Element())
	}
	if len(o.index) > 8+2*l.Len()/segment {
		o.reset()
	}
	at := l.Last()
	for range nearEnd {
		if at.Position() <= position { // begin at the latest
			return at
		}
		at = l.Prev(at)
	}
	return o.find(&l.List, position)
}

// find returns the last element whose position is not greater than position.
func (o *ordered) find(list *machine.List, position int64) *machine.Watch {
	i := sort.Search(len(o.index), func(i int) bool { return o.index[i].Position() > position })
	at := o.begin.Element()
	if i > 0 {
		at = o.index[i-1].Element()
	}
	steps := 0
	for next := list.Next(at); next != nil && next.Position() <= position; next = list.Next(at) {
		at = next
		if steps++; steps%segment == 0 {
			marker := &machine.Marker{Users: 1, Fixed: true}
			list.Mark(marker, at.Position(), at)
			o.index = slices.Insert(o.index, i, marker)
			i++
			at = marker.Element()
		}
	}
	return at
}

// trim drops the first markers of the index, as many as stand right behind begin.
func (o *ordered) trim(list *machine.List) {
	for len(o.index) > 0 && list.Next(o.begin.Element()) == o.index[0].Element() {
		o.dropFirst()
	}
}

// compact drops the markers of the index that stand right before the next one, but not the one at at: the operations
// that stood between have ended. A walk calls it when it has passed many such markers.
func (o *ordered) compact(list *machine.List, at *machine.Watch) {
	kept := o.index[:0]
	for i, m := range o.index {
		if i+1 < len(o.index) && m.Element() != at && list.Next(m.Element()) == o.index[i+1].Element() {
			drop(m)
		} else {
			kept = append(kept, m)
		}
	}
	clear(o.index[len(kept):])
	o.index = kept
}

// reset drops the markers of the index.
func (o *ordered) reset() {
	for len(o.index) > 0 {
		o.dropFirst()
	}
	o.index = nil
}

// drop lets a marker of the index go. It stays in the list for as long as a walk stands there.
func drop(m *machine.Marker) {
	m.Fixed = false
	leave(m)
}

// dropFirst drops the first marker of the index.
func (o *ordered) dropFirst() {
	drop(o.index[0])
	o.index[0] = nil
	o.index = o.index[1:]
}
