package watchers

import (
	"slices"
	"sort"

	"github.com/delayedop/purgatory/internal/machine"
)

// ordered is what a keyList needs as soon as an operation waits for a position of its key.
//
// The index, a sorted array of marks in the list, finds a position: a binary search is followed by steps, which add a
// mark after every segment operations. An operation that leaves does not touch it. Marks before which no operation
// stands are dropped, and an index with too many is emptied.
type ordered struct {
	begin machine.Watch    // the operations that wait for a position stand behind it
	index []*machine.Watch // empty until an operation is inserted far from the end
}

const (
	nearEnd = 32 // number of elements at the end that lastUpTo searches without the index
	segment = 64 // number of operations between two marks of a new index
)

// lastUpTo returns the last element whose position is not greater, or the root: what is to be linked for a position
// follows it.
func (l *keyList[K]) lastUpTo(position int64) *machine.Watch {
	if l.ordered == nil {
		l.ordered = new(ordered)
		l.Link(&l.ordered.begin, nil, anyPosition, l.Last())
	}
	o := l.ordered
	if position == anyPosition {
		return o.begin.Prev
	}
	at := l.Last()
	for range nearEnd {
		if at.Position <= position { // begin at the latest
			return at
		}
		at = at.Prev
	}
	o.trim(&l.List)
	return o.find(&l.List, position)
}

func (o *ordered) find(list *machine.List, position int64) *machine.Watch {
	i := sort.Search(len(o.index), func(i int) bool { return o.index[i].Position > position })
	at := &o.begin
	if i > 0 {
		at = o.index[i-1]
	}
	steps := 0
	for next := list.Next(at); next != nil && next.Position <= position; next = list.Next(at) {
		at = next
		if steps++; steps%segment == 0 {
			mark := new(machine.Watch)
			list.Link(mark, nil, at.Position, at)
			o.index = slices.Insert(o.index, i, mark)
			i++
			at = mark
		}
	}
	return at
}

// trim drops the marks right behind begin, or all if there are too many.
func (o *ordered) trim(list *machine.List) {
	all := len(o.index) > 8+2*list.Len()/segment
	for len(o.index) > 0 && (all || list.Next(&o.begin) == o.index[0]) {
		o.index[0].Unlink()
		o.index[0] = nil
		o.index = o.index[1:]
	}
}

// dropMarks empties the index of l, in which no operation stands.
func (l *keyList[K]) dropMarks() {
	if o := l.ordered; o != nil && len(o.index) > 0 {
		l.Init(l.shard.all.config.End)
		l.Link(&o.begin, nil, anyPosition, l.Last())
		clear(o.index)
		o.index = o.index[:0]
	}
}
