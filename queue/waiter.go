package queue

import (
	"context"
	"errors"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// Waiter is a request that [Queue.Start] has put into the line. It is safe for concurrent use.
type Waiter[T any] struct{ w waiter[T] }

// waiter is a request. The lock of the queue guards its fields until it is over; then they are constant until the
// goroutine that gets the answer uses it again. The timer guards entry.
type waiter[T any] struct {
	spot[T]            // in the line of the first kind
	others   []spot[T] // in those of the other kinds
	entry    timer.TaskEntry
	q        *Queue[T]
	n        int
	deadline time.Duration
	tenant   string          // as it is counted in elsewhere
	gone     <-chan struct{} // is closed when the context has ended
	ready    chan struct{}   // of Take: gets a token when it is over; of Start: is closed then, nil if there is a callback
	done     func(T, error)  // the callback
	next     *waiter[T]      // of those to wake
	item     T
	err      error
	over     bool
	stale    bool // the deadline is that of WithMaxAge
	started  bool // by Start
	called   bool // done
}

// spot is where a waiter stands in one line.
type spot[T any] struct {
	node node[waiter[T]]
	in   *kind[T]
}

// crowd is a list of waiters that are over and have yet to be woken.
type crowd[T any] struct{ first, last *waiter[T] }

func (c *crowd[T]) add(w *waiter[T]) {
	if c.last == nil {
		c.first = w
	} else {
		c.last.next = w
	}
	c.last = w
}

func (q *Queue[T]) newWaiter(ready chan struct{}) *Waiter[T] {
	w := new(Waiter[T])
	w.w.q, w.w.ready = q, ready
	w.w.entry.Bind(&w.w)
	return w
}

// late returns how w ends whose deadline has passed.
func (w *waiter[T]) late() error {
	if w.stale {
		return errStale
	}
	return errExpired
}

// wait is Take that has found nothing.
//
// It uses the waiter, with its channel, of an earlier wait:
//
//  1. Whoever ends w sends one token, and touches w no more; wait receives it.
//  2. A worker of the timer may have claimed the entry of w before that. Then Cancel fails, and w is not used again.
//  3. No channel leaves the bubble in which it was made, or comes into one.
func (q *Queue[T]) wait(ctx context.Context, timeout time.Duration, p *Place) (item T, err error) {
	again := !q.bubble && !(q.manual && sched.InBubble()) // other queues panic in join
	var w *waiter[T]
	if again {
		w, _ = q.waiters.Get().(*waiter[T])
	}
	if w == nil {
		w = &q.newWaiter(sched.NewToken()).w
	}
	w.gone = ctx.Done()
	timed, err := q.join(w, timeout, p)
	if err == nil {
		if !sched.Either(w.ready, w.gone) {
			q.leave(w, errGone)
			sched.Receive(w.ready) // it has left, or an item has come meanwhile
		}
		if item, err = w.item, w.err; err == errGone {
			err = context.Cause(ctx)
		}
	}
	if timed && !q.timer.Cancel(&w.entry) {
		again = false
	}
	if again {
		var none T
		w.item, w.err, w.gone, w.over = none, nil, nil, false
		q.waiters.Put(w)
	}
	return item, err
}

// Start is Take that does not block. If done is nil, [Waiter.Done] and [Waiter.Result] say how it has ended. Otherwise
// done gets what Take returns, on a worker of the timer (of a [timer.ManualTimer], when that advances): so a chain of
// callbacks that put and take has a bounded stack, and a callback that blocks holds up others when it blocks all
// workers. If Start returns an error, nobody waits, and done is not called.
//
// A Waiter is one allocation, its channel another one. Call Stop when you no longer need it. Errors: those of Take, but
// for the context's.
func (q *Queue[T]) Start(timeout time.Duration, done func(T, error), at ...Place) (*Waiter[T], error) {
	p := &nowhere
	if len(at) > 0 {
		own, err := q.place(at, len(at[0].Kinds))
		if p = &own; err != nil {
			return nil, err
		}
	}
	var ready chan struct{}
	if done == nil {
		ready = make(chan struct{})
	}
	w := q.newWaiter(ready)
	w.w.done, w.w.started = done, true
	if _, err := q.join(&w.w, timeout, p); err != nil {
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
func (w *Waiter[T]) Stop() bool { return w.w.q.leave(&w.w, errCancelled) }

// clock returns the time on the timer. It panics if the queue is used on the other side of a bubble's border.
func (q *Queue[T]) clock() time.Duration {
	now := q.timer.Now()
	if now < 0 || q.bubble && !q.manual && !sched.InBubble() {
		panic("queue: a wait on one side of the border of a synctest bubble, in a queue, or on a timer, that was made on the other: make them where you wait")
	}
	return now
}

// join puts w into the lines, serves them, and reports whether w is in the timer. If there is an error, w is in no line.
// It puts w into the timer while it holds the lock, so that whoever ends w finds its entry there.
func (q *Queue[T]) join(w *waiter[T], timeout time.Duration, p *Place) (timed bool, err error) {
	now := q.clock()
	if w.stale = q.maxAge > 0 && q.maxAge < timeout; w.stale {
		timeout = q.maxAge
	}
	w.n, w.deadline, w.tenant = p.N, timer.Never, ""
	if more := len(p.Kinds) - 1; more > cap(w.others) {
		w.others = make([]spot[T], 0, more)
	}
	var ended crowd[T]
	q.mu.Lock()
	if err = q.admitLocked(p, timeout); err != nil {
		q.unlock()
		return false, err
	}
	q.lineUpLocked(w, p, now, &ended)
	if !w.over && timeout < timer.Never {
		w.deadline = timer.Deadline(now, timeout)
		if timeout <= 0 {
			q.mu.counts.Expired++
			err = errExpired
		} else if err = q.timer.AddAt(&w.entry, now, w.deadline); err != nil {
			q.mu.counts.Refused++
			err = refusedBy(err)
		}
		if timed = err == nil; !timed {
			q.quitLocked(w) // those behind it need more than there is: they did before it came
		}
	}
	if w.done != nil && err == nil {
		q.mu.callbacks++
	}
	q.unlock()
	q.wake(ended.first)
	return timed, err
}

// refusedBy returns what the error of a timer means.
func refusedBy(err error) error {
	if errors.Is(err, timer.ErrStopped) {
		return fail(ErrClosed, "%w", err)
	}
	return fail(ErrFull, "%w", err)
}

// admitLocked returns why a request at p may not wait.
func (q *Queue[T]) admitLocked(p *Place, timeout time.Duration) error {
	switch {
	case q.mu.closed != nil:
		return q.mu.closed
	case q.mu.draining:
		return errClosed
	case q.maxWaiting == 0 || timeout <= 0: // who does not wait takes no place
		return nil
	case q.mu.waiting >= q.maxWaiting:
		q.mu.counts.Refused++
		return fail(ErrFull, "%d wait", q.mu.waiting)
	case p.Tenant == "":
		return nil
	}
	n := q.mu.elsewhere[p.Tenant]
	if f := q.mu.main.line.flows[p.Tenant]; f != nil {
		n += f.n
	}
	if n >= q.maxWaiting-q.mu.waiting {
		q.mu.counts.Refused++
		return fail(ErrFull, "%d of tenant %q wait, %d places are left", n, p.Tenant, q.maxWaiting-q.mu.waiting)
	}
	return nil
}

// lineUpLocked puts w into the line of each of its kinds, until it is served.
func (q *Queue[T]) lineUpLocked(w *waiter[T], p *Place, now time.Duration, ended *crowd[T]) {
	q.mu.waiting++
	w.others = w.others[:0]
	if len(p.Kinds) == 0 {
		q.standLocked(w, &w.spot, &q.mu.main, p, now, ended)
		return
	}
	if q.maxWaiting > 0 && p.Tenant != "" {
		if w.tenant = p.Tenant; q.mu.elsewhere == nil {
			q.mu.elsewhere = make(map[string]int)
		}
		q.mu.elsewhere[w.tenant]++
	}
	q.mu.joins++
	s := &w.spot
	for _, name := range p.Kinds {
		k := q.find(name, true)
		if k.join == q.mu.joins { // it was named twice
			continue
		}
		if k.join = q.mu.joins; s == nil {
			w.others = w.others[:len(w.others)+1]
			s = &w.others[len(w.others)-1]
		}
		if q.standLocked(w, s, k, p, now, ended); w.over {
			return
		}
		s = nil
	}
}

// standLocked puts w into the line of k, and serves that.
func (q *Queue[T]) standLocked(w *waiter[T], s *spot[T], k *kind[T], p *Place, now time.Duration, ended *crowd[T]) {
	s.in = k
	s.node.of, s.node.class, s.node.cost, s.node.arrival = w, uint8(p.Class), p.Cost, int64(now)
	k.line.push(&s.node, p.Tenant)
	q.serveLocked(k, now, ended)
	q.tidy(k)
}

// quitLocked takes w out of the lines in which it stands.
func (q *Queue[T]) quitLocked(w *waiter[T]) {
	q.mu.waiting--
	if w.tenant != "" {
		if n := q.mu.elsewhere[w.tenant] - 1; n > 0 {
			q.mu.elsewhere[w.tenant] = n
		} else {
			delete(q.mu.elsewhere, w.tenant)
		}
	}
	w.spot.quit(q)
	for i := range w.others {
		w.others[i].quit(q)
	}
}

func (s *spot[T]) quit(q *Queue[T]) {
	if s.node.flow != nil {
		s.in.line.remove(&s.node)
		q.tidy(s.in)
	}
}

// serveLocked hands items of k over while the first of its line can be served, and adds those who have ended to ended.
// Those whose deadline has passed, or whose context has ended, get nothing. now is a reading of the clock, or -1.
//
// Who waits for several kinds needs one unit. When such a one leaves the line of another kind, nobody there has to be
// served: either it is not the first, or there is no unit (see kind).
func (q *Queue[T]) serveLocked(k *kind[T], now time.Duration, ended *crowd[T]) {
	for k.line.n > 0 {
		x := k.line.first()
		w := x.of
		var err error
		if w.deadline < timer.Never {
			if now < 0 {
				now = q.timer.Now()
			}
			if w.deadline <= now {
				err = w.late()
			}
		}
		if w.gone != nil && err == nil && sched.Closed(w.gone) {
			err = errGone
		}
		if err == nil {
			if k.units < w.n {
				return
			}
			k.line.serve(x)
			w.item = q.takeLocked(k, w.n)
		}
		q.quitLocked(w)
		q.endLocked(w, err)
		ended.add(w)
	}
}

// endLocked says how w, which stands in no line, has ended. The caller wakes it when it has released the lock.
func (q *Queue[T]) endLocked(w *waiter[T], err error) {
	w.over, w.err = true, err
	switch err {
	case nil:
		q.mu.counts.Served++
	case errExpired, errStale:
		q.mu.counts.Expired++
	default:
		q.mu.counts.Left++
	}
	q.checkIdleLocked()
}

// leave ends w with err unless it is over, serves those behind it, and reports whether it did.
func (q *Queue[T]) leave(w *waiter[T], err error) bool {
	var ended crowd[T]
	q.mu.Lock()
	if w.over {
		q.unlock()
		return false
	}
	q.quitLocked(w)
	q.endLocked(w, err)
	ended.add(w)
	if len(w.others) == 0 {
		q.serveLocked(w.in, -1, &ended)
		q.tidy(w.in)
	}
	q.unlock()
	q.wake(ended.first)
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
		switch {
		case !w.started:
			sched.Token(w.ready).Put()
		case w.done == nil:
			q.timer.Cancel(&w.entry)
			close(w.ready)
		default:
			q.timer.Cancel(&w.entry)
			q.callOnWorker(w)
		}
		if w = next; n%herd == 0 {
			since = sched.GiveWay(since)
		}
	}
}

// callOnWorker has a worker of the timer call the callback.
func (q *Queue[T]) callOnWorker(w *waiter[T]) {
	now := q.timer.Now()
	if q.timer.AddAt(&w.entry, now, now) != nil { // the timer is stopped, or full
		sched.Go(func() { w.RunTask(nil) })
	}
}

// RunTask is called when the entry of w has expired. It ends w, or calls the callback if w is over. Where the deadline
// passes while w ends otherwise, it is called for both.
func (w *waiter[T]) RunTask(*timer.TaskEntry) {
	q := w.q
	q.mu.Lock()
	if !w.over {
		q.unlock()
		q.leave(w, w.late())
		return
	}
	call := w.done != nil && !w.called
	w.called = true
	q.unlock()
	if call {
		defer q.returned()
		w.done(w.item, w.err)
	}
}

// returned counts a callback that has returned, or panicked.
func (q *Queue[T]) returned() {
	q.mu.Lock()
	defer q.unlock()
	q.mu.callbacks--
	q.checkIdleLocked()
}
