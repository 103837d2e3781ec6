package main

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/delayedop/purgatory/purgatory"
)

// queue gives each item to one of those that wait. Items are alike.
type queue interface {
	// Take blocks until there is an item for the caller, or returns an error when ctx ends or the queue is closed.
	Take(ctx context.Context) error
	Put()
	// Close ends the waits that ctx does not.
	Close()
}

var queueMakers = []maker[queue]{
	{hand, "one channel", func() queue { return make(channelQueue, 1) }},
	{hand, "`sync.Cond`", newCondQueue},
	{ours, "`CheckAndCompleteInOrder`", newPurgatoryQueue},
	{theirs, "`semaphore.Weighted`", newSemaphoreQueue},
	{theirs, "NATS's wait queue", func() queue { return &natsQueue{line: newWaitQueue(1 << 30)} }},
}

// channelQueue is a channel on which everybody waits: the runtime keeps its receivers in order.
type channelQueue chan struct{}

func (q channelQueue) Take(ctx context.Context) error {
	select {
	case <-q:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q channelQueue) Put()   { q <- struct{}{} }
func (q channelQueue) Close() {}

// condQueue wakes one waiter for each item. Close ends the waits whose ctx has ended; nothing else does.
type condQueue struct {
	there *sync.Cond
	items int // guarded by there.L
}

func newCondQueue() queue { return &condQueue{there: sync.NewCond(new(sync.Mutex))} }

func (q *condQueue) Take(ctx context.Context) error {
	q.there.L.Lock()
	defer q.there.L.Unlock()
	for q.items == 0 && ctx.Err() == nil {
		q.there.Wait()
	}
	q.items--
	return ctx.Err()
}

func (q *condQueue) Put() {
	q.there.L.Lock()
	defer q.there.L.Unlock()
	q.items++
	q.there.Signal()
}

func (q *condQueue) Close() {
	q.there.L.Lock()
	defer q.there.L.Unlock()
	q.there.Broadcast()
}

// semaphoreQueue has a unit of a semaphore for each item.
type semaphoreQueue struct{ units *semaphore.Weighted }

func newSemaphoreQueue() queue {
	const most = 1 << 30
	q := semaphoreQueue{semaphore.NewWeighted(most)}
	q.units.TryAcquire(most)
	return q
}

func (q semaphoreQueue) Take(ctx context.Context) error { return q.units.Acquire(ctx, 1) }
func (q semaphoreQueue) Put()                           { q.units.Release(1) }
func (q semaphoreQueue) Close()                         {}

// purgatoryQueue counts its items under a mutex.
type purgatoryQueue struct {
	p     *purgatory.DelayedOperationPurgatory[int]
	mu    sync.Mutex
	items int
}

func newPurgatoryQueue() queue { return &purgatoryQueue{p: newPurgatory[int]()} }

func (q *purgatoryQueue) Take(ctx context.Context) error {
	return q.p.Await(ctx, timeout, q.take, 0)
}

func (q *purgatoryQueue) take() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items == 0 {
		return false
	}
	q.items--
	return true
}

func (q *purgatoryQueue) Put() {
	q.mu.Lock()
	q.items++
	q.mu.Unlock()
	q.p.CheckAndCompleteInOrder(0)
}

func (q *purgatoryQueue) Close() { shutdown(q.p) }
