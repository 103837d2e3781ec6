package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// Close ends all who wait with cause, or with [ErrClosed] if that is nil, and refuses those who come later, and what is
// put later, with the same. It returns the items that are kept, those of each kind in order; of items that are only
// counted, as many. Closing again returns nothing, and the first cause stays. It does not wait for callbacks, and may be
// called from one.
func (q *Queue[T]) Close(cause error) (items []T) {
	q.mu.Lock()
	defer q.unlock()
	if cause == nil {
		cause = errClosed
	}
	q.closeLocked(cause, cause)
	items = make([]T, 0, q.mu.kept)
	q.mu.returned += int64(q.mu.kept)
	for _, k := range q.mu.kinds {
		for k.items.n > 0 {
			items = append(items, q.takeLocked(k, 1))
		}
		q.mu.kept, k.units = q.mu.kept-k.units, 0 // those that are only counted may be billions
		q.tidyLocked(k)
	}
	return items[:cap(items)]
}

// closeLocked closes the queue unless it is closed: it ends those who wait, and refuses those who come later. What is kept
// stays.
func (q *Queue[T]) closeLocked(ends, refuses error) {
	if q.mu.closed != nil {
		return
	}
	q.mu.draining, q.mu.closed = true, refuses
	for _, k := range q.mu.kinds {
		for x := k.line.next(); x != nil; x = k.line.next() {
			q.endLocked(x.of, ends, &q.mu.counts.Left)
		}
	}
}

func (q *Queue[T]) checkIdleLocked() {
	if q.mu.idle != nil && q.mu.waiting == 0 && q.mu.callbacks == 0 {
		close(q.mu.idle)
		q.mu.idle = nil
	}
}

// drainFor is how long Shutdown waits for callbacks when its context has ended.
const drainFor = time.Second

// Shutdown refuses those who come from now on with [ErrClosed], and waits until nobody waits any more and every callback
// has returned: Put goes on serving. When ctx ends before, it ends those who still wait with the cause of ctx, waits a
// second for callbacks, and returns an error that wraps that cause and says how many have not returned. In either case the queue is
// closed then, so Put returns [ErrClosed], and what is kept stays until [Queue.Close]. Shutdown does not wait for items that are lent.
// Do not call it from a callback.
//
// Errors: the cause of ctx, [ErrInvalid].
func (q *Queue[T]) Shutdown(ctx context.Context) (err error) {
	if ctx == nil {
		return fail(ErrInvalid, "a nil context")
	}
	q.mu.Lock()
	q.mu.draining = true
	if q.mu.idle == nil {
		q.mu.idle = make(chan struct{})
	}
	idle := q.mu.idle
	q.checkIdleLocked()
	q.unlock()
	if !sched.Either(idle, ctx.Done()) && !sched.Closed(idle) { // both may be the case
		err = context.Cause(ctx)
	}
	q.mu.Lock()
	q.closeLocked(err, errClosed)
	q.unlock()
	if err == nil || sched.Sleep(drainFor, nil, idle, nil) == sched.Stopped {
		return err
	}
	q.mu.Lock()
	n := q.mu.callbacks
	q.unlock()
	return fmt.Errorf("queue: %w; %d callbacks have not returned", err, n)
}
