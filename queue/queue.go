package queue

import (
	"cmp"
	"context"
	"math"
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
		sched.Mutex                     // level 2 of the lock order, see docs/internals/design.md
		main        kind[T]             // whose name is ""
		kinds       map[string]*kind[T] // by name: main, and the others while anything is in them
		spareKind   *kind[T]            // an empty one, for the next name
		waiting     int                 // in all lines
		tenants     map[string]int      // how many of a tenant that has a name wait; only with WithMaxWaiting
		kept        int                 // units
		spares      []*kept[T]          // for the next items that are kept
		ended       *waiter[T]          // those who have ended since the lock was taken, linked by next
		tail        **waiter[T]         // the end of that list
		closed      error               // why; nil: it is open
		draining    bool                // nobody may come any more
		callbacks   int                 // that have yet to return, those of who waits included
		idle        chan struct{}       // is closed when nobody waits and callbacks is 0; nil: nobody asks
		counts      Stats               // only the counters
		returned    int64               // units, by Close
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
	q.maxItems = cmp.Or(q.maxItems, math.MaxInt) // more would not be counted
	_, q.manual = q.timer.(*timer.ManualTimer)
	q.order(&q.mu.main)
	q.mu.kinds, q.mu.tenants, q.mu.tail = map[string]*kind[T]{"": &q.mu.main}, map[string]int{}, &q.mu.ended
	return q, nil
}

// order sets the order of the lines of k. Without aging, classes are strict.
func (q *Queue[T]) order(k *kind[T]) {
	k.line.newest, k.line.aging = q.newestTaker, cmp.Or(int64(q.aging), longestAging)
	k.items.newest, k.items.aging = q.newestItem, k.line.aging
}

// findLocked returns the kind with that name; nil if nothing is in it and makes is false.
func (q *Queue[T]) findLocked(name string, makes bool) *kind[T] {
	if name == "" {
		return &q.mu.main
	}
	return q.findNamedLocked(name, makes)
}

func (q *Queue[T]) findNamedLocked(name string, makes bool) *kind[T] {
	k := q.mu.kinds[name]
	if k == nil && makes {
		if k, q.mu.spareKind = q.mu.spareKind, nil; k == nil {
			k = new(kind[T])
			q.order(k)
		}
		k.name, q.mu.kinds[name] = name, k
	}
	return k
}

// tidyLocked forgets k if nothing is in it.
func (q *Queue[T]) tidyLocked(k *kind[T]) {
	if k.name != "" && k.line.n == 0 && k.units == 0 {
		delete(q.mu.kinds, k.name)
		q.mu.spareKind = k
	}
}

// unlock releases the lock, and wakes those who have ended.
//
// A Take that has ended alone is woken with the lock held. Otherwise two processors pass the lock and the requests to and
// fro: that takes twice the processor time, and serves no more, see bench/NOTES.md.
func (q *Queue[T]) unlock() {
	ended := q.mu.ended
	q.mu.ended, q.mu.tail = nil, &q.mu.ended
	if q.assertLocked(); ended != nil && ended.next == nil && cap(ended.ready) > 0 {
		sched.Token(ended.ready).Put()
		ended = nil
	}
	q.mu.Unlock()
	q.wake(ended)
}

// Take waits for an item. If err is nil, the item is the caller's, even if ctx has ended meanwhile. With a timeout of 0
// or less it does not wait, and with [timer.Never] it waits until ctx ends.
//
// Errors: [ErrExpired], [ErrStale], the cause of ctx, [ErrFull], [ErrClosed] or the cause that was given to Close,
// [ErrInvalid].
func (q *Queue[T]) Take(ctx context.Context, timeout time.Duration, at ...Place) (item T, err error) {
	p := &nowhere
	if len(at) > 0 {
		own, err := q.place(at, math.MaxInt)
		if p = &own; err != nil {
			return item, err
		}
	}
	if ctx == nil {
		return item, fail(ErrInvalid, "a nil context")
	}
	gone := ctx.Done()
	q.mu.Lock()
	if gone != nil && sched.Closed(gone) { // with the lock: nothing that comes later goes to who has left
		q.mu.Unlock()
		return item, context.Cause(ctx)
	}
	if !q.mu.draining {
		for _, name := range p.Kinds {
			if k := q.findLocked(name, false); k != nil && k.line.n == 0 && k.units >= p.N {
				item = q.takeLocked(k, p.N)
				q.mu.counts.Served++
				q.tidyLocked(k)
				q.assertLocked()
				q.mu.Unlock() // nobody has ended
				return item, nil
			}
		}
	}
	return q.waitLocked(ctx, gone, timeout, p)
}

// takeLocked takes n units out of k, which has them.
func (q *Queue[T]) takeLocked(k *kind[T], n int) (item T) {
	k.units -= n
	q.mu.kept -= n
	if !q.units {
		x := k.items.next()
		k.items.serve(x)
		item, x.of.item = x.of.item, item
		if len(q.mu.spares) < 64 {
			q.mu.spares = append(q.mu.spares, x.of)
		}
	}
	return item
}

// keepLocked adds an item, or units, to what is kept of k; back says that it was put back.
func (q *Queue[T]) keepLocked(k *kind[T], item T, p *Place, back bool) {
	k.units += p.N
	q.mu.kept += p.N
	if q.units {
		return
	}
	var it *kept[T]
	if n := len(q.mu.spares); n > 0 {
		it, q.mu.spares = q.mu.spares[n-1], q.mu.spares[:n-1]
	} else {
		it = new(kept[T])
		it.node.of = it
	}
	it.item, it.node.class, it.node.cost = item, uint8(p.Class), p.Cost
	if q.aging > 0 {
		it.node.arrival = int64(q.timer.Now())
	}
	if back {
		k.items.pushFront(&it.node)
	} else {
		k.items.push(&it.node, p.Tenant)
	}
}

// Put gives an item, or n units, to those who wait, and keeps what nobody waits for. The place says how many, of which
// kind, and how the items that are kept are ordered. If Put returns an error, the item is still the caller's. It does not
// block.
//
// Errors: [ErrFull], [ErrClosed] or the cause that was given to Close, [ErrInvalid].
func (q *Queue[T]) Put(item T, at ...Place) error {
	_, err := q.give(item, at, put)
	return err
}

// PutBack gives back an item, or units, that was taken and is not done with, as that of a worker that has died: it comes
// before all that is kept, behind what was put back before, past WithMaxItems, and its tenant is not charged again. Of the
// place only the kind and N count. No more can be put back than was taken and has not been put back, nor in one call than
// WithMaxItems.
//
// Errors: [ErrClosed] or the cause that was given to Close, [ErrInvalid]. Then the item is still the caller's.
func (q *Queue[T]) PutBack(item T, at ...Place) error {
	_, err := q.give(item, at, putBack)
	return err
}

// Hand gives an item to the next that waits for it and needs no more than that and what is kept, and reports whether
// there was one. If not, or if there is an error, the item is still the caller's. Of the place only the kind counts. It
// does not block.
//
// Errors: [ErrClosed] or the cause that was given to Close, [ErrInvalid].
func (q *Queue[T]) Hand(item T, at ...Place) (handed bool, err error) { return q.give(item, at, hand) }

const put, putBack, hand = 0, 1, 2 // how an item is given

func (q *Queue[T]) give(item T, at []Place, how int) (given bool, err error) {
	p := &nowhere
	if len(at) > 0 {
		own, err := q.place(at, 1)
		if p = &own; err != nil {
			return false, err
		}
	}
	q.mu.Lock()
	k := q.findLocked(p.Kinds[0], true)
	if how == put && k.line.n == 0 && q.mu.closed == nil && p.N <= q.maxItems-q.mu.kept {
		q.mu.counts.Put += int64(p.N)
		q.keepLocked(k, item, p, false)
		q.assertLocked()
		q.mu.Unlock() // nobody has ended
		return true, nil
	}
	var w *waiter[T]
	if k.line.n > 0 {
		q.serveLocked(k, -1) // if the first has left, and nobody has come to the lock since
		w = q.nextLocked(k, -1)
		k = q.findLocked(k.name, true) // it is forgotten if all have left
	}
	if given, err = q.acceptLocked(k, w, p, how); given {
		if w != nil && w.n == p.N && k.units == 0 {
			q.handLocked(k, w, item)
		} else if q.keepLocked(k, item, p, how == putBack); w != nil {
			q.serveLocked(k, -1)
		}
	}
	q.tidyLocked(k)
	q.unlock()
	return given, err
}

// acceptLocked counts what is given at p, where w is next in line, or returns why it is not accepted: nil if it cannot be
// handed to w.
func (q *Queue[T]) acceptLocked(k *kind[T], w *waiter[T], p *Place, how int) (accepted bool, err error) {
	n, counts := int64(p.N), &q.mu.counts
	switch {
	case q.mu.closed != nil:
		return false, q.mu.closed
	case how == put && p.N > q.maxItems-q.mu.kept:
		counts.PutRefused += n
		return false, fail(ErrFull, "%d units beside %d, at most %d are kept", p.N, q.mu.kept, q.maxItems)
	case how == putBack:
		if taken := counts.Put - q.mu.returned - int64(q.mu.kept); n > taken {
			return false, fail(ErrInvalid, "%d units are put back, %d are taken", n, taken)
		}
		if p.N > math.MaxInt-q.mu.kept {
			return false, fail(ErrInvalid, "%d units are put back beside %d, more than an int counts", n, q.mu.kept)
		}
		counts.Back += n
		return true, nil
	case how == hand && n > 1:
		return false, fail(ErrInvalid, "%d units, Hand gives one", n)
	case how == hand && (w == nil || w.n > k.units+1):
		return false, nil
	}
	counts.Put += n
	return true, nil
}
