package queue

import (
	"math"
	"math/bits"
)

// classes is how many classes of priority there are. longestAging is the longest handicap, nine years: the sum of arrival and handicaps
// must not overflow.
const classes, longestAging = 8, math.MaxInt64 / 4 / classes

// node is a place in a line: of a waiter, or of an item that is kept.
type node[E any] struct {
	of         *E
	next, prev *node[E]
	flow       *flow[E] // nil: it stands in no line
	arrival    int64    // on the queue's clock
	cost       float64
	class      uint8
}

// list is a doubly linked list of nodes in order of arrival.
type list[E any] struct{ head, tail *node[E] }

// flow holds the nodes of one tenant, by class.
type flow[E any] struct {
	tenant string
	tag    float64 // if it has nodes, the start tag of the one that is next; otherwise the finish tag of who was served last
	since  uint64  // when tag was set, see line.tags
	n      int     // nodes
	index  int     // in line.heap, from 1; 0: it is not there
	used   uint8   // bit c is set if class[c] is not empty
	class  [classes]list[E]
}

// line orders nodes: between flows by start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996), within a flow
// by arrival + class × handicap, or the newest first. First in, first out is one flow with one class. It is not safe for
// concurrent use.
//
// The algorithm gives each request a start tag, the later of its tenant's last finish tag and the virtual time, and a
// finish tag, later by its cost, and serves the least start tag. Here a flow has one tag, and cost is added when a node is
// served: so one that leaves charges nobody. The virtual time is the start tag of the one that is next, not of the one that
// was served last: so those who wait are not overtaken by one new tenant after the other, and what a tenant owes is
// forgotten sooner.
type line[E any] struct {
	n       int     // nodes
	virtual float64 // as of the last call of next, 0 if the line is empty
	tags    uint64  // that were set: equal tags are served in that order
	newest  bool
	aging   int64 // the handicap

	front flow[E]             // what was put back: its tag is -∞
	main  flow[E]             // of the tenant ""
	flows map[string]*flow[E] // of the others, as long as they are in the heap
	heap  []*flow[E]          // those that have nodes, or a tag after the virtual time: a binary heap, the least tag first
	spare *flow[E]            // an empty one, for the next tenant
}

// push puts x at its place in the line of its tenant, in O(1), or O(log flows) if it is the first there.
func (l *line[E]) push(x *node[E], tenant string) {
	l.next() // brings the virtual time up to date, and may forget the flow
	f := &l.main
	if tenant != "" {
		if f = l.flows[tenant]; f == nil {
			if f, l.spare = l.spare, nil; f == nil {
				f = new(flow[E])
			}
			if f.tenant = tenant; l.flows == nil {
				l.flows = make(map[string]*flow[E])
			}
			l.flows[tenant] = f
		}
	}
	if f.n == 0 {
		l.mark(f, max(f.tag, l.virtual))
	}
	l.append(f, x)
}

// pushFront puts x before all that were not put back, and behind those that were.
func (l *line[E]) pushFront(x *node[E]) {
	x.class = 0
	l.mark(&l.front, math.Inf(-1))
	l.append(&l.front, x)
}

func (l *line[E]) append(f *flow[E], x *node[E]) {
	if f.index == 0 {
		l.heap = append(l.heap, f)
		f.index = len(l.heap)
	}
	if f.n == 0 && len(l.heap) > 1 {
		l.fix(f)
	}
	c := &f.class[x.class]
	if x.flow, x.next, x.prev = f, nil, c.tail; c.tail == nil {
		c.head = x
	} else {
		c.tail.next = x
	}
	c.tail = x
	f.used |= 1 << x.class
	f.n++
	l.n++
}

// remove takes x out of the line, in O(1), or O(log flows) if it is the last of its flow.
func (l *line[E]) remove(x *node[E]) {
	f := x.flow
	c := &f.class[x.class]
	before, behind := &c.head, &c.tail // what refers to x
	if x.prev != nil {
		before = &x.prev.next
	}
	if x.next != nil {
		behind = &x.next.prev
	}
	if *before, *behind = x.next, x.prev; c.head == nil {
		f.used &^= 1 << x.class
	}
	x.flow, x.next, x.prev = nil, nil, nil
	f.n--
	if l.n--; l.n == 0 { // nobody competes, and nobody owes anything; one flow stays, for who comes next
		for len(l.heap) > 1 {
			l.forget(l.heap[len(l.heap)-1])
		}
		l.heap[0].tag, l.virtual = 0, 0
	} else if f.n == 0 && f.tag <= l.virtual {
		l.forget(f)
	}
}

// serve takes x out of the line, which next has returned, and charges its flow.
func (l *line[E]) serve(x *node[E]) {
	f := x.flow
	l.mark(f, f.tag+x.cost)
	if l.remove(x); f.index > 0 && len(l.heap) > 1 {
		l.fix(f)
	}
}

func (l *line[E]) mark(f *flow[E], tag float64) {
	l.tags++
	f.tag, f.since = tag, l.tags
}

// forget drops f, which is empty and in the heap.
func (l *line[E]) forget(f *flow[E]) {
	last := l.heap[len(l.heap)-1]
	l.heap[len(l.heap)-1] = nil
	l.heap = l.heap[:len(l.heap)-1]
	if last != f {
		l.heap[f.index-1], last.index = last, f.index
		l.fix(last)
	}
	if f.tag, f.index = 0, 0; f != &l.main && f != &l.front {
		delete(l.flows, f.tenant)
		l.spare = f
	}
}

// next returns who is next; nil if the line is empty. It forgets the flows that owe nothing after that one's tag.
func (l *line[E]) next() *node[E] {
	for l.n > 0 {
		f := l.heap[0]
		if f.n > 0 {
			l.virtual = max(l.virtual, f.tag)
			return f.first(l.newest && f != &l.front, l.aging)
		}
		l.forget(f)
	}
	return nil
}

// first returns who is next of f, which is not empty.
func (f *flow[E]) first(newest bool, aging int64) *node[E] {
	c := bits.TrailingZeros8(f.used)
	if newest {
		return f.class[c].tail
	}
	best := f.class[c].head
	for used := f.used & (f.used - 1); used != 0; used &= used - 1 {
		x := f.class[bits.TrailingZeros8(used)].head
		if x.arrival+int64(x.class)*aging < best.arrival+int64(best.class)*aging {
			best = x
		}
	}
	return best
}

// before reports whether f is served before g.
func (f *flow[E]) before(g *flow[E]) bool {
	return f.tag < g.tag || f.tag == g.tag && f.since < g.since
}

// fix moves f, which is in the heap, to where it belongs.
func (l *line[E]) fix(f *flow[E]) {
	i := f.index
	for ; i > 1 && f.before(l.heap[i/2-1]); i /= 2 {
		l.set(i, l.heap[i/2-1])
	}
	for child := 2 * i; child <= len(l.heap); child = 2 * i {
		if child < len(l.heap) && l.heap[child].before(l.heap[child-1]) {
			child++
		}
		if f.before(l.heap[child-1]) {
			break
		}
		l.set(i, l.heap[child-1])
		i = child
	}
	l.set(i, f)
}

func (l *line[E]) set(i int, f *flow[E]) { l.heap[i-1], f.index = f, i }
