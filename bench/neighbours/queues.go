package main

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/delayedop/purgatory/purgatory"
)

// queue hands each item to one of those that wait.
type queue interface {
	// Take blocks until there is an item for the caller, or returns an error when ctx ends or the queue is closed.
	Take(ctx context.Context) (item int, err error)
	Put(item int)
	// Close ends the waits that ctx does not.
	Close()
}

var queuePeers = []struct {
	side side
	name string
	make func() queue
}{
	{hand, "one channel", func() queue { return make(channelQueue, 1) }},
	{hand, "`sync.Cond`", newCondQueue},
	{ours, inOrderName(), newPurgatoryQueue},
	{theirs, "`semaphore.Weighted`", newSemaphoreQueue},
}

// channelQueue is a channel on which everybody waits: the runtime keeps its receivers in order.
type channelQueue chan int

func (q channelQueue) Take(ctx context.Context) (int, error) {
	select {
	case item := <-q:
		return item, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (q channelQueue) Put(item int) { q <- item }
func (q channelQueue) Close()       {}

// shelf holds the items that nobody has taken.
type shelf struct {
	mu    sync.Mutex
	items []int
}

func (s *shelf) put(item int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, item)
}

func (s *shelf) take() (item int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked()
}

func (s *shelf) takeLocked() (item int, ok bool) {
	if len(s.items) == 0 {
		return 0, false
	}
	item = s.items[0]
	s.items = append(s.items[:0], s.items[1:]...) // there are few
	return item, true
}

// condQueue wakes one waiter for each item. A wait cannot be given up.
type condQueue struct {
	shelf
	there  sync.Cond // on mu
	closed bool      // guarded by mu
}

func newCondQueue() queue {
	q := new(condQueue)
	q.there.L = &q.mu
	return q
}

var errClosed = errors.New("the queue is closed")

func (q *condQueue) Take(context.Context) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		if item, ok := q.takeLocked(); ok {
			return item, nil
		}
		q.there.Wait()
	}
	return 0, errClosed
}

func (q *condQueue) Put(item int) {
	q.put(item)
	q.there.Signal()
}

func (q *condQueue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.there.Broadcast()
}

// semaphoreQueue has a unit of a semaphore for each item.
type semaphoreQueue struct {
	shelf
	units *semaphore.Weighted
}

func newSemaphoreQueue() queue {
	const most = 1 << 30
	q := &semaphoreQueue{units: semaphore.NewWeighted(most)}
	q.units.TryAcquire(most)
	return q
}

func (q *semaphoreQueue) Take(ctx context.Context) (int, error) {
	if err := q.units.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	item, _ := q.take() // it was put before its unit was released
	return item, nil
}

func (q *semaphoreQueue) Put(item int) {
	q.put(item)
	q.units.Release(1)
}

func (q *semaphoreQueue) Close() {}

// inOrder is the check for one of many, which tries in the order of waiting and stops at the first no.
type inOrder interface{ CheckAndCompleteInOrder(key string) int }

// inOrderName says which check there is.
func inOrderName() string {
	if _, ok := any((*purgatory.DelayedOperationPurgatory[string])(nil)).(inOrder); ok {
		return "`CheckAndCompleteInOrder`"
	}
	return "`CheckAndComplete`, which tries everybody"
}

type purgatoryQueue struct {
	shelf
	p     *purgatory.DelayedOperationPurgatory[string]
	check func() int
}

const itemKey = "item"

func newPurgatoryQueue() queue {
	q := &purgatoryQueue{p: newPurgatory[string]()}
	q.check = func() int { return q.p.CheckAndComplete(itemKey) }
	if p, ok := any(q.p).(inOrder); ok {
		q.check = func() int { return p.CheckAndCompleteInOrder(itemKey) }
	}
	return q
}

func (q *purgatoryQueue) Take(ctx context.Context) (int, error) {
	return purgatory.AwaitValue(ctx, q.p, timeout, q.take, itemKey)
}

func (q *purgatoryQueue) Put(item int) {
	q.put(item)
	q.check()
}

func (q *purgatoryQueue) Close() { shutdown(q.p) }
