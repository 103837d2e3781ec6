package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/puddle/v2"
	"golang.org/x/sync/semaphore"

	"github.com/delayedop/purgatory/timer"
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
	{ours, "`queue`, units", newLine[struct{}](timeout)},
	{ours, "`queue`, values", newLine[*int](timeout)},
	{theirs, "`semaphore.Weighted`", newSemaphoreQueue},
	{theirs, "puddle's pool", newPuddleQueue},
	{theirs, "NATS's wait queue", func() queue { return &natsQueue{line: newWaitQueue(1 << 30)} }},
}

// untimedQueues are queueMakers of which none has a timeout.
var untimedQueues = []maker[queue]{
	{hand, "one channel", func() queue { return make(channelQueue, 1) }},
	{hand, "`sync.Cond`", newCondQueue},
	{ours, "`queue`", newLine[struct{}](timer.Never)},
	{theirs, "`semaphore.Weighted`", newSemaphoreQueue},
	{theirs, "puddle's pool", newPuddleQueue},
}

// timedQueues are queueMakers of which all have a timeout.
var timedQueues = []maker[queue]{
	{hand, "one channel, `time.NewTimer`", func() queue { return timedChannelQueue{make(channelQueue, 1)} }},
	{hand, "one channel, `context.WithTimeout`", takenInTime(func() queue { return make(channelQueue, 1) })},
	{ours, "`queue`", newLine[struct{}](timeout)},
	{theirs, "`semaphore.Weighted`, `context.WithTimeout`", takenInTime(newSemaphoreQueue)},
	{theirs, "puddle's pool, `context.WithTimeout`", takenInTime(newPuddleQueue)},
}

// withTakeContext gives each Take of its queue a context that ends after the timeout.
type withTakeContext struct{ queue }

func takenInTime(untimed func() queue) func() queue {
	return func() queue { return withTakeContext{untimed()} }
}

func (q withTakeContext) Take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return q.queue.Take(ctx)
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

// timedChannelQueue is channelQueue with a timer for each Take that finds no item.
type timedChannelQueue struct{ channelQueue }

func (q timedChannelQueue) Take(ctx context.Context) error {
	select {
	case <-q.channelQueue:
		return nil
	default:
	}
	expiry := time.NewTimer(timeout)
	defer expiry.Stop()
	select {
	case <-q.channelQueue:
		return nil
	case <-expiry.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

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

// puddleQueue is a pool of one resource. It is not in the pool while there is no item: whoever has taken the item
// leaves it in held, and Put releases it.
type puddleQueue struct {
	pool *puddle.Pool[struct{}]
	held chan *puddle.Resource[struct{}]
}

func newPuddle(size int32) *puddle.Pool[struct{}] {
	pool, err := puddle.NewPool(&puddle.Config[struct{}]{
		Constructor: func(context.Context) (struct{}, error) { return struct{}{}, nil },
		Destructor:  func(struct{}) {},
		MaxSize:     size,
	})
	must(err)
	return pool
}

func newPuddleQueue() queue {
	q := puddleQueue{newPuddle(1), make(chan *puddle.Resource[struct{}], 1)}
	must(q.Take(context.Background()))
	return q
}

func (q puddleQueue) Take(ctx context.Context) error {
	item, err := q.pool.Acquire(ctx)
	if err == nil {
		q.held <- item
	}
	return err
}

func (q puddleQueue) Put() { (<-q.held).Release() }

// Close leaves the pool to the collector: closing it would wait for its resource.
func (q puddleQueue) Close() {}
