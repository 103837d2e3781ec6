package queue

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// Waiter is a request that [Queue.Start] has put into the line. It is safe for concurrent use.
type Waiter[T any] struct{ w waiter[T] }

// waiter is a request. The lock of the queue guards its fields until it is over; then they are constant until the
// goroutine that gets the answer uses it again. The timer guards entry.
type waiter[T any] struct {
	ready    chan struct{}   // of Take: has room for a token, which says that it is over; of Start: is closed then, or nil
	gone     <-chan struct{} // is closed when the context has ended
	deadline time.Duration
	n        int
	next     *waiter[T] // of those who have ended
	spots    []spot[T]  // of each of its kinds; none if it is over
	one      [1]spot[T] // for those who wait for one
	item     T
	err      error
	late     error  // how it ends if its deadline passes
	tenant   string // as it is counted in Queue.mu.tenants
	q        *Queue[T]
	done     func(T, error) // the callback
	entry    timer.TaskEntry
}

// spot is where a waiter stands in one line.
type spot[T any] struct {
	node node[waiter[T]]
	in   *kind[T]
}

func (q *Queue[T]) newWaiter(ready chan struct{}) *Waiter[T] {
	w := new(Waiter[T])
	w.w.q, w.w.ready, w.w.spots = q, ready, w.w.one[:0]
	w.w.entry.Bind(&w.w)
	return w
}

// waitLocked is Take that has found nothing. It releases the lock.
//
// It uses the waiter, with its channel, of an earlier wait:
//
//  1. Whoever ends w sends one token, and touches w no more; waitLocked receives it.
//  2. A worker of the timer may have claimed the entry of w before that. Then Cancel fails, and w is not used again.
//  3. No channel leaves the bubble in which it was made, or comes into one.
func (q *Queue[T]) waitLocked(ctx context.Context, gone <-chan struct{}, timeout time.Duration, p *Place) (item T, err error) {
	again := !q.bubble && (!q.manual || !sched.InBubble()) // other queues panic in joinLocked
	w, _ := q.waiters.Get().(*waiter[T])
	if w == nil || !again {
		w = &q.newWaiter(sched.NewToken()).w
	}
	w.gone = gone
	timed, err := q.joinLocked(w, timeout, p)
	if err == nil {
		if !sched.Either(w.ready, w.gone) {
			q.leave(w, errGone, &q.mu.counts.Left)
			sched.Receive(w.ready) // it has left, or an item has come meanwhile
		}
		if item, err = w.item, w.err; err == errGone { //nolint:errorlint // that very error: another's Is is user code
			err = context.Cause(ctx)
		}
	}
	if (!timed || q.timer.Entries().Cancel(&w.entry)) && again {
		w.item, w.err, w.gone = *new(T), nil, nil
		q.waiters.Put(w)
	}
	return item, err
}

// Start is Take that does not block. If done is nil, [Waiter.Done] and [Waiter.Result] say how it has ended. Otherwise
// done gets what Take returns, on a worker of the timer (of a [timer.ManualTimer], when that advances): so a chain of
// callbacks that put and take has a bounded stack, and a callback that blocks holds up others when it blocks all
// workers. Its panics go to the timer's handler. Where the timer is full or has stopped by then, done has a goroutine of its
// own, and slog's default logger gets its panics. If Start returns an error, nobody waits, and done is not called.
//
// A Waiter is one allocation, its channel another one. Call Stop when you no longer need it. Errors: those of Take, but
// for the context's.
func (q *Queue[T]) Start(timeout time.Duration, done func(T, error), at ...Place) (*Waiter[T], error) {
	p := &nowhere
	if len(at) > 0 {
		own, err := q.place(at, math.MaxInt)
		if p = &own; err != nil {
			return nil, err
		}
	}
	var ready chan struct{}
	if done == nil {
		ready = make(chan struct{})
	}
	w := q.newWaiter(ready)
	w.w.done = done
	q.mu.Lock()
	if _, err := q.joinLocked(&w.w, timeout, p); err != nil {
		return nil, err
	}
	return w, nil
}

// Done returns a channel that is closed when the request has ended; nil if there is a callback.
func (w *Waiter[T]) Done() <-chan struct{} { return w.w.ready }

// Result returns what Take would. It blocks until the channel of Done is closed. Error, of a request with a callback:
// [ErrInvalid].
func (w *Waiter[T]) Result() (item T, err error) {
	if w.w.done != nil {
		return item, fail(ErrInvalid, "Result of a request whose callback gets the result")
	}
	sched.Receive(w.w.ready)
	return w.w.item, w.w.err
}

// Stop ends the request with [ErrCancelled], and reports whether it did. If not, the request has ended before: receive
// from Done and look at Result, which may have an item.
func (w *Waiter[T]) Stop() bool { return w.w.q.leave(&w.w, errCancelled, &w.w.q.mu.counts.Left) }

// joinLocked puts w into the lines, serves them, releases the lock, and reports whether w is in the timer. If there is an
// error, w is in no line. It puts w into the timer while it holds the lock, so that whoever ends w finds its entry there.
func (q *Queue[T]) joinLocked(w *waiter[T], timeout time.Duration, p *Place) (timed bool, err error) {
	defer q.unlock()
	now := q.timer.Now()
	if now < 0 || q.bubble && !q.manual && !sched.InBubble() {
		panic(sched.ErrBorder)
	}
	if w.late = errExpired; q.maxAge > 0 && q.maxAge < timeout {
		w.late, timeout = errStale, q.maxAge
	}
	w.n, w.deadline = p.N, timer.Never
	if len(p.Kinds) > cap(w.spots) {
		w.spots = make([]spot[T], 0, len(p.Kinds))
	}
	full := q.admitLocked(p, timeout)
	if full != nil && q.mu.draining {
		return false, full
	}
	q.lineUpLocked(w, p, now)
	if len(w.spots) > 0 && (full != nil || timeout < timer.Never) {
		w.deadline = timer.Deadline(now, timeout)
		if err = full; err != nil {
			q.mu.counts.Refused++
		} else if timeout <= 0 {
			q.mu.counts.Expired++
			err = errExpired
		} else if err = q.timer.Entries().AddAt(&w.entry, now, w.deadline); err != nil {
			q.mu.counts.Refused++
			kind := ErrFull
			if errors.Is(err, timer.ErrStopped) {
				kind = ErrClosed
			}
			err = fail(kind, "%v", err)
		}
		if timed = err == nil; !timed {
			k := w.spots[0].in
			q.quitLocked(w)
			q.serveLocked(k, now) // those behind it, if one before it had left
			q.tidyLocked(k)
		}
	}
	if w.done != nil && err == nil {
		q.mu.callbacks++
	}
	return timed, err
}

// admitLocked returns why a request at p may not wait, even if it need not.
func (q *Queue[T]) admitLocked(p *Place, timeout time.Duration) error {
	switch {
	case q.mu.closed != nil:
		return q.mu.closed
	case q.mu.draining:
		return errClosed
	case q.maxWaiting == 0 || timeout <= 0 || q.mu.tenants[p.Tenant] < q.maxWaiting-q.mu.waiting:
		return nil // who does not wait takes no place
	}
	return fail(ErrFull, "%d of at most %d wait, %d of them for tenant %q", q.mu.waiting, q.maxWaiting, q.mu.tenants[p.Tenant], p.Tenant)
}

// lineUpLocked puts w into the line of each of its kinds, and serves that, until w is served.
func (q *Queue[T]) lineUpLocked(w *waiter[T], p *Place, now time.Duration) {
	q.mu.waiting++
	if w.tenant = ""; q.maxWaiting > 0 && p.Tenant != "" {
		w.tenant = p.Tenant
		q.mu.tenants[w.tenant]++
	}
	for _, name := range p.Kinds { // one that is named twice does no harm
		k := q.findLocked(name, true)
		w.spots = w.spots[:len(w.spots)+1]
		s := &w.spots[len(w.spots)-1]
		s.in = k
		s.node.of, s.node.class, s.node.cost, s.node.arrival = w, uint8(p.Class), p.Cost, int64(now)
		k.line.push(&s.node, p.Tenant)
		q.serveLocked(k, now)
		if q.tidyLocked(k); len(w.spots) == 0 {
			return
		}
	}
}

// quitLocked takes w out of the lines in which it stands.
func (q *Queue[T]) quitLocked(w *waiter[T]) {
	q.mu.waiting--
	if q.maxWaiting > 0 && w.tenant != "" {
		if q.mu.tenants[w.tenant]--; q.mu.tenants[w.tenant] == 0 {
			delete(q.mu.tenants, w.tenant)
		}
	}
	for i := range w.spots {
		if s := &w.spots[i]; s.node.flow != nil {
			s.in.line.remove(&s.node)
			q.tidyLocked(s.in)
		}
	}
	w.spots = w.spots[:0]
}

// serveLocked hands items of k over while the next in its line can be served. now is a reading of the clock, or -1.
//
// Who waits for several kinds needs one unit. When such a one leaves the line of another kind, nobody there has to be
// served: either it is not the next, or there is no unit (see kind).
func (q *Queue[T]) serveLocked(k *kind[T], now time.Duration) {
	for k.units > 0 {
		w := q.nextLocked(k, now)
		if w == nil || w.n > k.units {
			return
		}
		q.handLocked(k, w, q.takeLocked(k, w.n))
	}
}

// handLocked hands item to w, which is next in the line of k.
func (q *Queue[T]) handLocked(k *kind[T], w *waiter[T], item T) {
	k.line.serve(k.line.next())
	w.item = item
	q.endLocked(w, nil, &q.mu.counts.Served)
}

// nextLocked returns who is next in the line of k, nil if nobody is. It ends those before whose deadline has passed, or
// whose context has ended.
func (q *Queue[T]) nextLocked(k *kind[T], now time.Duration) *waiter[T] {
	for x := k.line.next(); x != nil; x = k.line.next() {
		w := x.of
		if now < 0 && w.deadline < timer.Never {
			now = q.timer.Now()
		}
		switch {
		case w.deadline <= now:
			q.endLocked(w, w.late, &q.mu.counts.Expired)
		case w.gone != nil && sched.Closed(w.gone):
			q.endLocked(w, errGone, &q.mu.counts.Left)
		default:
			return w
		}
	}
	return nil
}

// endLocked takes w out of its lines, and says how it has ended. counter is that of such ends.
func (q *Queue[T]) endLocked(w *waiter[T], err error, counter *int64) {
	if q.quitLocked(w); err != nil {
		w.err = err
	}
	*counter++
	*q.mu.tail, q.mu.tail = w, &w.next
	q.checkIdleLocked()
}

// leave ends w with err unless it is over, serves those behind it, and reports whether it did.
func (q *Queue[T]) leave(w *waiter[T], err error, counter *int64) bool {
	q.mu.Lock()
	defer q.unlock()
	if len(w.spots) == 0 {
		return false
	}
	k, alone := w.spots[0].in, len(w.spots) == 1
	if q.endLocked(w, err, counter); alone {
		q.serveLocked(k, -1)
		q.tidyLocked(k)
	}
	return true
}

// herd is after how many that it has woken a goroutine lets others run.
const herd = 128

// wake tells w, and those that are linked to it, that they have ended. The caller holds no lock.
func (q *Queue[T]) wake(w *waiter[T]) {
	var since time.Time
	for n := 1; w != nil; n++ {
		next := w.next
		w.next = nil // before w is told: then it may be used again
		if cap(w.ready) > 0 {
			sched.Token(w.ready).Put()
		} else {
			q.finish(w)
		}
		if w = next; n%herd == 0 {
			since = sched.GiveWay(since)
		}
	}
}

// finish closes the channel of w, which is over, or has a worker of the timer call its callback. It is RunTask that calls it,
// once: either a worker has claimed the entry of w since its deadline has passed, or it is put into the timer anew.
func (q *Queue[T]) finish(w *waiter[T]) {
	claimed := !q.timer.Entries().Cancel(&w.entry) && q.timer.Entries().DeadlineOf(&w.entry) != 0
	if now := q.timer.Now(); w.done == nil {
		close(w.ready)
	} else if !claimed && q.timer.Entries().AddAt(&w.entry, now, now) != nil { // the timer is stopped, or full
		sched.Go(func() { guard.Call(func() { w.RunTask(nil) }, nil) })
	}
}

// RunTask is called when the entry of w has expired. It ends w unless it is over, and calls the callback.
func (w *waiter[T]) RunTask(*timer.TaskEntry) {
	q := w.q
	if q.leave(w, w.late, &q.mu.counts.Expired); w.done == nil {
		return
	}
	defer func() { // also if it panics
		q.mu.Lock()
		defer q.unlock()
		q.mu.callbacks--
		q.checkIdleLocked()
	}()
	w.done(w.item, w.err)
}
