package main

import (
	"container/list"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	lines "github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

// heldQueues hand out items that those who have taken them hold for a moment. Each begins without an item.
var heldQueues = []maker[queue]{
	{hand, "list and channels", func() queue { return new(handQueue) }},
	{hand, "one channel", func() queue { return make(channelQueue, 2) }},
	{ours, "`queue`, units", newLine[struct{}](timer.Never)},
	{ours, "`queue`, values", newLine[*int](timer.Never)},
	{ours, "`queue`, a timeout", newLine[struct{}](timeout)},
	{ours, "`queue`, a tenant", newLine[struct{}](timer.Never, lines.Place{Tenant: "a tenant"})},
	{theirs, "`semaphore.Weighted`", newSemaphoreQueue},
	{theirs, "puddle's pool", func() queue { return new(heldPuddle) }},
	{theirs, "the way of database/sql", func() queue { return &sqlQueue{requests: make(map[chan struct{}]struct{})} }},
	{theirs, "Vitess' way", func() queue { return new(vitessQueue) }},
}

// takeHoldAndPut has n goroutines take an item each, hold it while others run, and put it back, beside so many items. Its
// figure is processor time: how long each waits depends on nothing but their number.
func takeHoldAndPut(items int) func(q queue, n int, window time.Duration) map[string]float64 {
	return func(q queue, n int, window time.Duration) map[string]float64 {
		for range items {
			q.Put()
		}
		return processor(meter.Loop(n, window, 10, func(_, n int) {
			for range n {
				must(q.Take(context.Background()))
				runtime.Gosched()
				q.Put()
			}
		}))
	}
}

// giveUpTogether has n goroutines wait for an item that does not come, until their context ends.
func giveUpTogether(q queue, n int, window time.Duration) map[string]float64 {
	var about atomic.Int64
	var takers sync.WaitGroup
	begin := make([]chan context.Context, n)
	for i := range begin {
		begin[i] = make(chan context.Context, 1)
		takers.Go(func() {
			for ctx := range begin[i] {
				about.Add(1)
				if q.Take(ctx) == nil {
					panic("there was an item")
				}
				about.Add(1)
			}
		})
	}
	m := meter.Loop(1, window, n, func(int, int) {
		about.Store(0)
		ctx, cancel := context.WithCancel(context.Background())
		for _, c := range begin {
			c <- ctx
		}
		until(func() bool { return about.Load() == int64(n) })
		for range 10 { // for those who are only about to
			runtime.Gosched()
		}
		cancel()
		until(func() bool { return about.Load() == 2*int64(n) })
	})
	for _, c := range begin {
		close(c)
	}
	takers.Wait()
	return processor(m)
}

func processor(m meter.Rate) map[string]float64 {
	return map[string]float64{result.NsOp: m.CPUPerOp, result.AllocsOp: m.AllocsPerOp}
}

// lineQueue is a queue of the library.
type lineQueue[T any] struct {
	line    *lines.Queue[T]
	timeout time.Duration
	at      []lines.Place
	item    T
}

func newLine[T any](timeout time.Duration, at ...lines.Place) func() queue {
	return func() queue {
		line, err := lines.New[T]()
		must(err)
		return &lineQueue[T]{line: line, timeout: timeout, at: at}
	}
}

func (q *lineQueue[T]) Take(ctx context.Context) error {
	_, err := q.line.Take(ctx, q.timeout, q.at...)
	return err
}
func (q *lineQueue[T]) Put()   { must(q.line.Put(q.item)) }
func (q *lineQueue[T]) Close() { q.line.Close(nil) }

// handQueue is a mutex, a list of those who wait, and a channel for each of them.
type handQueue struct {
	mu      sync.Mutex
	items   int
	waiters list.List // of chan struct{}
}

func (q *handQueue) Take(ctx context.Context) error {
	q.mu.Lock()
	if q.items > 0 && q.waiters.Len() == 0 {
		q.items--
		q.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	at := q.waiters.PushBack(ready)
	q.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		select {
		case <-ready: // an item came meanwhile
			return nil
		default:
			q.waiters.Remove(at)
			return ctx.Err()
		}
	}
}

func (q *handQueue) Put() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first := q.waiters.Front(); first != nil {
		close(q.waiters.Remove(first).(chan struct{}))
	} else {
		q.items++
	}
}

func (q *handQueue) Close() {}

// heldPuddle is a pool of puddle, of as many resources as there were items before the first Take. Each is made by the first
// that needs it.
type heldPuddle struct {
	items int32
	once  sync.Once
	pool  *puddle.Pool[struct{}]
	mu    sync.Mutex
	taken []*puddle.Resource[struct{}]
}

func (q *heldPuddle) Take(ctx context.Context) error {
	q.once.Do(func() {
		if q.pool = newPuddle(max(q.items, 1)); q.items == 0 {
			_, err := q.pool.Acquire(context.Background()) // nobody gets it; the first Take may be ended before it begins
			must(err)
		}
	})
	item, err := q.pool.Acquire(ctx)
	if err == nil {
		q.mu.Lock()
		q.taken = append(q.taken, item)
		q.mu.Unlock()
	}
	return err
}

func (q *heldPuddle) Put() {
	q.mu.Lock()
	n := len(q.taken)
	if n == 0 {
		q.items++
		q.mu.Unlock()
		return
	}
	item := q.taken[n-1]
	q.taken = q.taken[:n-1]
	q.mu.Unlock()
	item.Release()
}

func (q *heldPuddle) Close() {}

// sqlQueue is as the pool of database/sql has it: a set of those who wait, of which Put picks any, and a slice of items.
type sqlQueue struct {
	mu       sync.Mutex
	items    []struct{}
	requests map[chan struct{}]struct{}
}

func (q *sqlQueue) Take(ctx context.Context) error {
	q.mu.Lock()
	if n := len(q.items); n > 0 {
		q.items = q.items[:n-1]
		q.mu.Unlock()
		return nil
	}
	ready := make(chan struct{}, 1)
	q.requests[ready] = struct{}{}
	q.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		q.mu.Lock()
		delete(q.requests, ready)
		q.mu.Unlock()
		select {
		case <-ready: // an item came meanwhile
			q.Put()
		default:
		}
		return ctx.Err()
	}
}

func (q *sqlQueue) Put() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ready := range q.requests {
		delete(q.requests, ready)
		ready <- struct{}{}
		return
	}
	q.items = append(q.items, struct{}{})
}

func (q *sqlQueue) Close() {}

// vitessQueue is as Vitess' pool of connections has it: items are taken without a lock, and those who find none stand in a
// list, of which Put serves the first. Who has come to the list looks for an item again.
type vitessQueue struct {
	free    atomic.Int64
	waiting atomic.Int64
	mu      sync.Mutex
	waiters list.List // of chan struct{}
}

func (q *vitessQueue) pop() bool {
	for n := q.free.Load(); n > 0; n = q.free.Load() {
		if q.free.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

func (q *vitessQueue) Take(ctx context.Context) error {
	if q.pop() {
		return nil
	}
	ready := make(chan struct{}, 1)
	q.mu.Lock()
	at := q.waiters.PushBack(ready)
	q.waiting.Add(1)
	q.mu.Unlock()
	if q.free.Load() > 0 {
		q.serve()
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		select {
		case <-ready: // an item came meanwhile
			return nil
		default:
			q.waiters.Remove(at)
			q.waiting.Add(-1)
			return ctx.Err()
		}
	}
}

// serve gives free items to those who wait.
func (q *vitessQueue) serve() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for first := q.waiters.Front(); first != nil && q.pop(); first = q.waiters.Front() {
		q.waiting.Add(-1)
		q.waiters.Remove(first).(chan struct{}) <- struct{}{}
	}
}

func (q *vitessQueue) Put() {
	q.free.Add(1)
	if q.waiting.Load() > 0 {
		q.serve()
	}
}

func (q *vitessQueue) Close() {}
