package queue

import "math/bits"

// classes is how many classes of priority there are.
const classes = 8

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
	index  int     // in line.heap if it has nodes, otherwise in line.owed; from 1, 0: in neither
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
	virtual float64 // as now has last returned it
	tags    uint64  // that were set: equal tags are served in that order
	latest  int64   // arrival
	newest  bool
	aging   int64 // the handicap

	front flow[E]             // what was put back: it comes before all others, and is charged to nobody
	main  flow[E]             // of the tenant ""
	flows map[string]*flow[E] // of the others, while they have nodes or owe
	heap  []*flow[E]          // those that have nodes, but front, as a binary heap: the least tag first
	owed  []*flow[E]          // those that have none, and a tag after the virtual time when they were last looked at
	sweep int                 // so many in owed are looked at
	spare *flow[E]            // an empty one, for the next tenant
}

// flowOf returns the flow of a tenant, which it makes if there is none.
func (l *line[E]) flowOf(tenant string) *flow[E] {
	if tenant == "" {
		return &l.main
	}
	f := l.flows[tenant]
	if f == nil {
		if f, l.spare = l.spare, nil; f == nil {
			f = new(flow[E])
		}
		f.tenant = tenant
		if l.flows == nil {
			l.flows = make(map[string]*flow[E])
		}
		l.flows[tenant] = f
	}
	return f
}

// push puts x at its place in the line, in O(1), or O(log flows) if it is the first of its flow.
func (l *line[E]) push(x *node[E], tenant string) {
	f := l.flowOf(tenant)
	if f.n == 0 {
		if f.index > 0 { // in owed: the last one takes its place
			last := len(l.owed)
			l.owed[f.index-1] = l.owed[last-1]
			l.owed[f.index-1].index = f.index
			l.owed[last-1] = nil
			l.owed = l.owed[:last-1]
		}
		l.mark(f, max(f.tag, l.now()))
		l.heap = append(l.heap, f)
		f.index = len(l.heap)
		l.up(f)
	}
	l.latest = max(l.latest, x.arrival) // the clock is read before the lock is taken
	x.arrival = l.latest
	c := &f.class[x.class]
	if x.flow, x.next, x.prev = f, nil, c.tail; c.tail == nil {
		c.head = x
	} else {
		c.tail.next = x
	}
	c.tail = x
	l.count(f, x)
}

// pushFront puts x before all others.
func (l *line[E]) pushFront(x *node[E]) {
	x.class = 0
	c := &l.front.class[0]
	if x.flow, x.next, x.prev = &l.front, c.head, nil; c.head == nil {
		c.tail = x
	} else {
		c.head.prev = x
	}
	c.head = x
	l.count(&l.front, x)
}

func (l *line[E]) count(f *flow[E], x *node[E]) {
	f.used |= 1 << x.class
	f.n++
	l.n++
}

// remove takes x out of the line, in O(1), or O(log flows) if it is the last of its flow.
func (l *line[E]) remove(x *node[E]) {
	f := x.flow
	c := &f.class[x.class]
	if x.prev == nil {
		c.head = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		c.tail = x.prev
	} else {
		x.next.prev = x.prev
	}
	if c.head == nil {
		f.used &^= 1 << x.class
	}
	x.flow, x.next, x.prev = nil, nil, nil
	f.n--
	l.n--
	if f.n > 0 || f == &l.front {
		if l.n == 0 {
			l.rest()
		}
		return
	}
	last := len(l.heap)
	if moved := l.heap[last-1]; moved != f {
		l.heap[f.index-1], moved.index = moved, f.index
		l.heap[last-1], l.heap = nil, l.heap[:last-1]
		l.fix(moved)
	} else {
		l.heap[last-1], l.heap = nil, l.heap[:last-1]
	}
	if f.index = 0; l.n == 0 {
		l.forget(f)
		l.rest()
	} else {
		l.settle(f)
	}
}

// serve takes x out of the line, which first has returned, and charges its flow.
func (l *line[E]) serve(x *node[E]) {
	f := x.flow
	if f != &l.front {
		l.mark(f, f.tag+x.cost)
	}
	if l.remove(x); f.n > 0 && f != &l.front {
		l.fix(f)
	}
}

// now returns the virtual time.
func (l *line[E]) now() float64 {
	if len(l.heap) > 0 {
		l.virtual = l.heap[0].tag
	}
	return l.virtual
}

func (l *line[E]) mark(f *flow[E], tag float64) {
	l.tags++
	f.tag, f.since = tag, l.tags
}

// settle forgets f, which has become empty, or remembers what it owes until the virtual time is there. It looks at owed
// when that has doubled, which is O(1) for each flow.
func (l *line[E]) settle(f *flow[E]) {
	now := l.now()
	if f.tag <= now {
		l.forget(f)
		return
	}
	l.owed = append(l.owed, f)
	if f.index = len(l.owed); f.index < max(l.sweep, 64) {
		return
	}
	still := l.owed[:0]
	for _, f := range l.owed {
		if f.tag <= now {
			l.forget(f)
			continue
		}
		still = append(still, f)
		f.index = len(still)
	}
	clear(l.owed[len(still):])
	l.owed, l.sweep = still, 2*len(still)
}

// rest is called when the line is empty: nobody competes, and nobody owes anything.
func (l *line[E]) rest() {
	for _, f := range l.owed {
		l.forget(f)
	}
	clear(l.owed)
	l.owed, l.virtual = l.owed[:0], 0
}

// forget drops f, which is empty.
func (l *line[E]) forget(f *flow[E]) {
	f.tag, f.index = 0, 0
	if f != &l.main {
		delete(l.flows, f.tenant)
		l.spare = f
	}
}

// first returns who is next; nil if the line is empty.
func (l *line[E]) first() *node[E] {
	switch {
	case l.front.n > 0:
		return l.front.class[0].head
	case len(l.heap) > 0:
		return l.heap[0].first(l.newest, l.aging)
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

// oldest returns the earliest arrival of f, which is not empty.
func (f *flow[E]) oldest() int64 {
	at := f.class[bits.TrailingZeros8(f.used)].head.arrival
	for used := f.used & (f.used - 1); used != 0; used &= used - 1 {
		at = min(at, f.class[bits.TrailingZeros8(used)].head.arrival)
	}
	return at
}

// before reports whether f is served before g.
func (f *flow[E]) before(g *flow[E]) bool {
	return f.tag < g.tag || f.tag == g.tag && f.since < g.since
}

// fix restores the heap after the tag or the place of f has changed.
func (l *line[E]) fix(f *flow[E]) {
	at := f.index
	if l.up(f); f.index == at {
		l.down(f)
	}
}

// up moves f towards the root of the heap as far as it belongs there.
func (l *line[E]) up(f *flow[E]) {
	i := f.index
	for ; i > 1 && f.before(l.heap[i/2-1]); i /= 2 {
		l.heap[i-1] = l.heap[i/2-1]
		l.heap[i-1].index = i
	}
	l.heap[i-1], f.index = f, i
}

// down moves f away from the root of the heap as far as it belongs there.
func (l *line[E]) down(f *flow[E]) {
	i := f.index
	for child := 2 * i; child <= len(l.heap); child = 2 * i {
		if child < len(l.heap) && l.heap[child].before(l.heap[child-1]) {
			child++
		}
		if f.before(l.heap[child-1]) {
			break
		}
		l.heap[i-1] = l.heap[child-1]
		l.heap[i-1].index = i
		i = child
	}
	l.heap[i-1], f.index = f, i
}
