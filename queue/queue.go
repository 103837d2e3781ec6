package queue

import (
	"context"
	"reflect"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// Queue is a line of those who wait for items, and a line of items that nobody has taken. It is safe for concurrent use.
// See the comment of the package.
type Queue[T any] struct {
	config
	units   bool // T has no size: items are only counted
	bubble  bool // it was made in a bubble
	manual  bool // its timer is a ManualTimer
	waiters sched.Pool

	mu struct {
		sched.Mutex
		main      kind[T]
		kinds     map[string]*kind[T] // those with a name, while anything is in them
		spareKind *kind[T]            // an empty one, for the next name
		waiting   int                 // in all lines
		elsewhere map[string]int      // tenant → how many of it wait for kinds with a name; only with WithMaxWaiting
		kept      int                 // units
		spare     *kept[T]            // linked by node.next
		spares    int
		joins     uint64        // of those who wait for kinds with a name
		closed    error         // why; nil: it is open
		draining  bool          // nobody may come any more
		callbacks int           // that have yet to return, those of who waits included
		idle      chan struct{} // is closed when nobody waits and callbacks is 0; nil: nobody asks
		counts    Stats         // only the counters
		returned  int64         // units, by Close
	}
}

// kind is one kind of items: those who wait for it, and the items that are kept.
//
// Whenever the lock is free, the first of the line cannot be served: it needs more units than there are, or it has left,
// and nobody has come to the lock since. So, if the first needs one unit, none is there.
type kind[T any] struct {
	name  string
	line  line[waiter[T]]
	items line[kept[T]] // empty if items are only counted
	units int           // that are kept
	join  uint64        // of the last that came to the line
}

// kept is an item that nobody has taken.
type kept[T any] struct {
	node node[kept[T]]
	item T
}

// New returns a queue. It holds no goroutine, and needs no Close. Error: [ErrInvalid].
func New[T any](options ...Option) (*Queue[T], error) {
	q := &Queue[T]{units: reflect.TypeFor[T]().Size() == 0, bubble: sched.InBubble()}
	for _, o := range options {
		if o == nil {
			return nil, fail(ErrInvalid, "a nil Option")
		}
		o(&q.config)
	}
	if q.errs != nil {
		return nil, q.errs
	}
	if q.timer == nil {
		q.timer = timer.Shared()
	}
	_, q.manual = q.timer.(*timer.ManualTimer)
	q.order(&q.mu.main)
	return q, nil
}

// order sets the order of the lines of k.
func (q *Queue[T]) order(k *kind[T]) {
	k.line.newest, k.line.aging = q.newestTaker, int64(q.aging)
	k.items.newest, k.items.aging = q.newestItem, int64(q.aging)
}

// find returns the kind with that name; nil if there is none and it is not to be made.
func (q *Queue[T]) find(name string, makes bool) *kind[T] {
	k := q.mu.kinds[name]
	if k == nil && makes {
		if k, q.mu.spareKind = q.mu.spareKind, nil; k == nil {
			k = new(kind[T])
			q.order(k)
		}
		if k.name = name; q.mu.kinds == nil {
			q.mu.kinds = make(map[string]*kind[T])
		}
		q.mu.kinds[name] = k
	}
	return k
}

// kindOf returns the kind of an item at p.
func (q *Queue[T]) kindOf(p *Place, makes bool) *kind[T] {
	if len(p.Kinds) == 0 {
		return &q.mu.main
	}
	return q.find(p.Kinds[0], makes)
}

// tidy forgets k if nothing is in it.
func (q *Queue[T]) tidy(k *kind[T]) {
	if k.name != "" && k.line.n == 0 && k.units == 0 {
		delete(q.mu.kinds, k.name)
		q.mu.spareKind = k
	}
}

// unlock asserts what has to hold, and releases the lock.
func (q *Queue[T]) unlock() {
	q.assertLocked()
	q.mu.Unlock()
}

// Take waits for an item. If err is nil, the item is the caller's, even if ctx has ended meanwhile. With a timeout of 0
// or less it does not wait, and with [timer.Never] it waits until ctx ends.
//
// Errors: [ErrExpired], [ErrStale], the cause of ctx, [ErrFull], [ErrClosed] or the cause that was given to Close,
// [ErrInvalid].
func (q *Queue[T]) Take(ctx context.Context, timeout time.Duration, at ...Place) (item T, err error) {
	p := &nowhere
	if len(at) > 0 {
		own, err := q.place(at, len(at[0].Kinds))
		if p = &own; err != nil {
			return item, err
		}
	}
	if ctx == nil {
		return item, fail(ErrInvalid, "a nil context")
	}
	if ctx.Err() != nil {
		return item, context.Cause(ctx)
	}
	q.mu.Lock()
	if k := q.readyLocked(p); k != nil {
		item = q.takeLocked(k, p.N)
		q.mu.counts.Served++
		q.tidy(k)
		q.unlock()
		return item, nil
	}
	q.unlock()
	return q.wait(ctx, timeout, p)
}

// readyLocked returns a kind that has what is asked for at p, and for which nobody waits; nil if there is none.
func (q *Queue[T]) readyLocked(p *Place) *kind[T] {
	if q.mu.draining {
		return nil
	}
	if len(p.Kinds) == 0 {
		if k := &q.mu.main; k.line.n == 0 && k.units >= p.N {
			return k
		}
		return nil
	}
	for _, name := range p.Kinds {
		if k := q.find(name, false); k != nil && k.line.n == 0 && k.units >= p.N {
			return k
		}
	}
	return nil
}

// takeLocked takes n units out of k, which has them.
func (q *Queue[T]) takeLocked(k *kind[T], n int) (item T) {
	k.units -= n
	q.mu.kept -= n
	if q.units {
		return item
	}
	x := k.items.first()
	k.items.serve(x)
	it := x.of
	item, it.item = it.item, item
	if q.mu.spares < maxSpares {
		q.mu.spares++
		if q.mu.spare != nil {
			it.node.next = &q.mu.spare.node
		}
		q.mu.spare = it
	}
	return item
}

// maxSpares is how many places of items are kept for others.
const maxSpares = 64

// keepLocked adds an item, or units, to what is kept of k, at its front if front is true.
func (q *Queue[T]) keepLocked(k *kind[T], item T, p *Place, front bool) {
	k.units += p.N
	q.mu.kept += p.N
	if q.units {
		return
	}
	it := q.mu.spare
	if it == nil {
		it = new(kept[T])
		it.node.of = it
	} else {
		q.mu.spares--
		if q.mu.spare = nil; it.node.next != nil {
			q.mu.spare = it.node.next.of
		}
	}
	it.item = item
	if it.node.class, it.node.cost = uint8(p.Class), p.Cost; front {
		k.items.pushFront(&it.node)
		return
	}
	if q.aging > 0 {
		it.node.arrival = int64(q.timer.Now())
	}
	k.items.push(&it.node, p.Tenant)
}

// Put gives an item, or n units, to those who wait, and keeps what nobody waits for. The place says how many, of which
// kind, and how the items that are kept are ordered. If Put returns an error, the item is still the caller's. It does not
// block.
//
// Errors: [ErrFull], [ErrClosed] or the cause that was given to Close, [ErrInvalid].
func (q *Queue[T]) Put(item T, at ...Place) error { return q.put(item, at, false) }

// PutBack gives back an item, or units, that was taken and is not done with, as that of a worker that has died: it comes
// before all that is kept, past WithMaxItems, and its tenant is not charged again. No more can be put back than was taken
// and has not been put back.
//
// Errors: [ErrClosed] or the cause that was given to Close, [ErrInvalid]. Then the item is still the caller's.
func (q *Queue[T]) PutBack(item T, at ...Place) error { return q.put(item, at, true) }

func (q *Queue[T]) put(item T, at []Place, back bool) (err error) {
	p := &nowhere
	if len(at) > 0 {
		own, err := q.place(at, 1)
		if p = &own; err != nil {
			return err
		}
	}
	q.mu.Lock()
	switch counts := &q.mu.counts; {
	case q.mu.closed != nil:
		err = q.mu.closed
	case back && int64(p.N) > counts.Put-q.mu.returned-int64(q.mu.kept):
		err = fail(ErrInvalid, "%d units are put back, %d are taken", p.N, counts.Put-q.mu.returned-int64(q.mu.kept))
	case back:
		counts.Back += int64(p.N)
	case q.maxItems > 0 && p.N > q.maxItems-q.mu.kept:
		counts.PutRefused += int64(p.N)
		err = fail(ErrFull, "%d units are kept", q.mu.kept)
	default:
		counts.Put += int64(p.N)
	}
	if err != nil {
		q.unlock()
		return err
	}
	k := q.kindOf(p, true)
	if q.keepLocked(k, item, p, back); k.line.n == 0 {
		q.unlock()
		return nil
	}
	var ended crowd[T]
	q.serveLocked(k, -1, &ended)
	q.tidy(k)
	q.unlock()
	q.wake(ended.first)
	return nil
}

// Hand gives an item to somebody who waits for it and needs no more than that and what is kept, and reports whether
// there was one. If not, or if there is an error, the item is still the caller's. Of the place only the kind counts. It
// does not block.
//
// Errors: [ErrClosed] or the cause that was given to Close, [ErrInvalid].
func (q *Queue[T]) Hand(item T, at ...Place) (handed bool, err error) {
	p := &nowhere
	if len(at) > 0 {
		own, err := q.place(at, 1)
		if err == nil && own.N > 1 {
			err = fail(ErrInvalid, "%d units are handed, and nobody may need all", own.N)
		}
		if p = &own; err != nil {
			return false, err
		}
	}
	var ended crowd[T]
	q.mu.Lock()
	if err = q.mu.closed; err == nil {
		if k := q.kindOf(p, false); k != nil {
			q.serveLocked(k, -1, &ended) // those who have left, leave
			x := k.line.first()
			if handed = x != nil && k.units+1 >= x.of.n; handed {
				q.mu.counts.Put++
				q.keepLocked(k, item, p, false)
				q.serveLocked(k, -1, &ended)
			}
			q.tidy(k)
		}
	}
	q.unlock()
	q.wake(ended.first)
	return handed, err
}
