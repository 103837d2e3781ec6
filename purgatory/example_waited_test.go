package purgatory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// countedSlots counts, as pools do, how often there was none.
type countedSlots struct {
	waiting *purgatory.Purgatory[struct{}]
	free    atomic.Int64
	waited  atomic.Int64 // how many had to wait for the slot that they got
}

func newCountedSlots(n int64) *countedSlots {
	s := &countedSlots{waiting: purgatory.Must(purgatory.New[struct{}]("slots"))}
	s.free.Store(n)
	return s
}

// acquire looks for a slot before it waits, as Await does: so whoever goes on to Await has to wait.
func (s *countedSlots) acquire(ctx context.Context) error {
	if ctx.Err() == nil && s.take() {
		return nil
	}
	err := s.waiting.Await(ctx, time.Minute, s.take, struct{}{})
	if err == nil {
		s.waited.Add(1)
	}
	return err
}

func (s *countedSlots) take() bool {
	for n := s.free.Load(); n > 0; n = s.free.Load() {
		if s.free.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

func (s *countedSlots) release() {
	s.free.Add(1)
	s.waiting.CheckAndComplete(struct{}{})
}

// A pool counts those who had to wait.
func ExamplePurgatory_Await_waited() {
	s := newCountedSlots(1)
	defer s.waiting.Close()
	ctx := context.Background()

	fmt.Println("a slot is free:", s.acquire(ctx), "- waited:", s.waited.Load())
	time.AfterFunc(time.Millisecond, s.release)
	fmt.Println("none is free:", s.acquire(ctx), "- waited:", s.waited.Load())
	// Output:
	// a slot is free: <nil> - waited: 0
	// none is free: <nil> - waited: 1
}
