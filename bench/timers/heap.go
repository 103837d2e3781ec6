package timers

import (
	"container/heap"
	"sync"
	"time"
)

// heapTimers is what one writes by hand: container/heap under a mutex, and a goroutine that sleeps until the top is due.
// Due callbacks are taken out in one go and run on that goroutine, the cheapest way there is (a slow callback would stop
// all others, which is not measured here).
type heapTimers struct {
	base time.Time
	wake chan struct{} // capacity 1; sent to when the top becomes earlier
	quit chan struct{}
	done sync.WaitGroup

	mu struct {
		sync.Mutex
		items itemHeap
	}
}

type item struct {
	when  time.Duration
	index int // in the heap, -1 when not in it
	f     func()
}

func startHeap() *heapTimers {
	h := &heapTimers{base: time.Now(), wake: make(chan struct{}, 1), quit: make(chan struct{})}
	h.done.Go(h.run)
	return h
}

func (h *heapTimers) add(d time.Duration, f func()) *item {
	it := &item{when: time.Since(h.base) + d, f: f}
	h.mu.Lock()
	heap.Push(&h.mu.items, it)
	first := it.index == 0
	h.mu.Unlock()
	if first {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
	return it
}

func (h *heapTimers) cancel(it *item) {
	h.mu.Lock()
	if it.index >= 0 {
		heap.Remove(&h.mu.items, it.index)
	}
	h.mu.Unlock()
}

func (h *heapTimers) run() {
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	var due []*item
	for {
		next := time.Hour
		h.mu.Lock()
		now := time.Since(h.base)
		for len(h.mu.items) > 0 {
			if left := h.mu.items[0].when - now; left > 0 {
				next = left
				break
			}
			due = append(due, heap.Pop(&h.mu.items).(*item))
		}
		h.mu.Unlock()
		for i, it := range due {
			it.f()
			due[i] = nil
		}
		if len(due) > 0 {
			due = due[:0]
			continue
		}
		sleep.Reset(next)
		select {
		case <-sleep.C:
		case <-h.wake:
		case <-h.quit:
			return
		}
	}
}

func (h *heapTimers) close() {
	close(h.quit)
	h.done.Wait()
}

type itemHeap []*item

func (h itemHeap) Len() int           { return len(h) }
func (h itemHeap) Less(i, j int) bool { return h[i].when < h[j].when }
func (h itemHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *itemHeap) Push(x any) {
	it := x.(*item)
	it.index = len(*h)
	*h = append(*h, it)
}

func (h *itemHeap) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	it.index = -1
	return it
}
