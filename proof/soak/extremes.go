package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// idle is an operation that is never satisfied and counts how it ends.
type idle struct {
	operation.DelayedOperation
	ended *[operation.NumOutcomes]atomic.Int64
}

func (o *idle) TryComplete() bool { return false }
func (o *idle) OnComplete()       { o.ended[o.Outcome()].Add(1) }
func (o *idle) OnExpiration()     {}

// submitIdle registers n operations from as many goroutines as there are processors, each
// under its own key. slowest is the longest time that a registration has taken.
func submitIdle(p *purgatory.DelayedOperationPurgatory[int], n int, timeout func() time.Duration, ended *[operation.NumOutcomes]atomic.Int64) (slowest time.Duration, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	parts := runtime.GOMAXPROCS(0)
	for part := range parts {
		group.Go(func() {
			var worst time.Duration
			for key := part; key < n; key += parts {
				began := time.Now()
				_, failed := p.TryCompleteElseWatch(&idle{ended: ended}, timeout(), key)
				worst = max(worst, time.Since(began))
				if failed != nil {
					mu.Lock()
					err = errors.Join(err, failed)
					mu.Unlock()
					return
				}
			}
			mu.Lock()
			slowest = max(slowest, worst)
			mu.Unlock()
		})
	}
	group.Wait()
	return slowest, err
}

// runStorm lets n operations expire at the same time, while it registers n others.
func runStorm(n int) error {
	p, err := purgatory.New[int]("storm")
	if err != nil {
		return err
	}
	defer p.Close()
	var first, second [operation.NumOutcomes]atomic.Int64
	moment := time.Now().Add(time.Duration(n) * 10 * time.Microsecond)
	if _, err = submitIdle(p, n, func() time.Duration { return time.Until(moment) }, &first); err != nil {
		return err
	}
	time.Sleep(time.Until(moment))
	early := first[operation.Expired].Load()
	slowest, err := submitIdle(p, n, func() time.Duration { return time.Hour }, &second)
	if err != nil {
		return err
	}
	registered := time.Since(moment)
	if !eventually(func() bool { return first[operation.Expired].Load() == int64(n) }) {
		return fmt.Errorf("of %d operations %d have expired", n, first[operation.Expired].Load())
	}
	expired := time.Since(moment)
	if late := second[operation.Expired].Load(); late > 0 {
		return fmt.Errorf("%d expired an hour early", late)
	}
	if pending := p.NumDelayed(); pending != n {
		return fmt.Errorf("%d pending, of %d", pending, n)
	}
	fmt.Printf("storm: %d expired within %v of their deadline (%d before all were registered), while %d registered in %v, the slowest in %v: nothing lost\n",
		n, expired.Round(time.Millisecond), early, n, registered.Round(time.Millisecond), slowest.Round(time.Microsecond))
	_ = p.Close()
	return p.Shutdown(endingAfter(time.Minute))
}

// runPending lets n operations wait at the same time, and prints their memory.
func runPending(n int) error {
	before := heap()
	p, err := purgatory.New[int]("pending")
	if err != nil {
		return err
	}
	defer p.Close()
	var ended [operation.NumOutcomes]atomic.Int64
	began := time.Now()
	slowest, err := submitIdle(p, n, func() time.Duration { return time.Hour }, &ended)
	if err != nil {
		return err
	}
	registered := time.Since(began)
	taken := heap() - before
	s := p.Stats()
	if s.Pending != int64(n) || s.Keys != int64(n) {
		return fmt.Errorf("%d pending under %d keys, of %d", s.Pending, s.Keys, n)
	}
	fmt.Printf("pending: %d operations under as many keys, registered in %v (the slowest in %v), take %s: %d bytes each, of which the operation itself is %d\n",
		n, registered.Round(time.Millisecond), slowest.Round(time.Microsecond), megabytes(taken), taken/uint64(n), unsafe.Sizeof(idle{}))
	began = time.Now()
	if err := p.Close(); err != nil {
		return err
	}
	if closed := ended[operation.Closed].Load(); closed != int64(n) {
		return fmt.Errorf("%d closed, of %d", closed, n)
	}
	took := time.Since(began)
	left := heap()
	if left > before+taken/2 {
		return fmt.Errorf("%s are left", megabytes(left))
	}
	fmt.Printf("pending: all closed in %v, %s are left: nothing lost\n", took.Round(time.Millisecond), megabytes(left-min(before, left)))
	return p.Shutdown(endingAfter(time.Minute))
}

// endingAfter returns a context that ends after d.
func endingAfter(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}
