package timers

import (
	"container/heap"
	"sync"
	"time"
)

// heapTimers is what one writes by hand: container/heap under a mutex, and one timer that is set to the top. Due callbacks
// are taken out in one go and run on that timer's goroutine, the cheapest way there is (a slow callback would stop all
// others, which is not measured here).
type heapTimers struct {
	base time.Time
	mu   struct {
		sync.Mutex
		items itemHeap
		top   *time.Timer // runs expire; set to the top whenever that has changed
	}
}

type item struct {
	when  time.Duration
	index int // in the heap, -1 when not in it
	f     func()
}

func startHeap() *heapTimers {
	h := &heapTimers{base: time.Now()}
	h.mu.top = time.AfterFunc(time.Hour, h.expire)
	return h
}

func (h *heapTimers) add(d time.Duration, f func()) *item {
	it := &item{when: time.Since(h.base) + d, f: f}
	h.mu.Lock()
	defer h.mu.Unlock()
	if heap.Push(&h.mu.items, it); it.index == 0 {
		h.mu.top.Reset(d)
	}
	return it
}

func (h *heapTimers) cancel(it *item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if it.index >= 0 {
		heap.Remove(&h.mu.items, it.index)
	}
}

func (h *heapTimers) expire() {
	var due []*item
	h.mu.Lock()
	now := time.Since(h.base)
	for len(h.mu.items) > 0 && h.mu.items[0].when <= now {
		due = append(due, heap.Pop(&h.mu.items).(*item))
	}
	if len(h.mu.items) > 0 {
		h.mu.top.Reset(h.mu.items[0].when - now)
	}
	h.mu.Unlock()
	for _, it := range due {
		it.f()
	}
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
