package main

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/pkg/v3/wait"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// results hands one result to the goroutine that has registered its id, as a server does
// that proposes to a log and answers when its proposal is applied.
type results interface {
	// Register makes id known, and returns a function that blocks until the result is there.
	Register(id uint64) (receive func() any)
	// Trigger hands over the result.
	Trigger(id uint64, result any)
	Close()
}

var resultMakers = []struct {
	name string
	make func() results
	// blocks says that Register leaves the registering to receive. On one goroutine the
	// result would be there before, and nothing would wait.
	blocks bool
}{
	{"purgatory, an operation each", newResultOperations, false},
	{"purgatory, `AwaitValue`", newResultAwaits, true},
	{"etcd `Wait`", func() results { return etcdWait{wait.New(), 0} }, false},
	{"etcd `Wait` and `context.WithTimeout`", func() results { return etcdWait{wait.New(), timeout} }, false},
}

// etcdWait has a timeout only if the caller makes one.
type etcdWait struct {
	wait.Wait
	timeout time.Duration
}

func (w etcdWait) Register(id uint64) func() any {
	result := w.Wait.Register(id)
	if w.timeout == 0 {
		return func() any { return <-result }
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	return func() any {
		defer cancel()
		select {
		case r := <-result:
			return r
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w etcdWait) Close() {}

// board holds the results that have come: the state that a purgatory's conditions read.
type board struct {
	mu struct {
		sync.Mutex
		results map[uint64]any
	}
}

func (b *board) put(id uint64, result any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.results == nil {
		b.mu.results = make(map[uint64]any)
	}
	b.mu.results[id] = result
}

func (b *board) take(id uint64) (result any, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	result, ok = b.mu.results[id]
	delete(b.mu.results, id)
	return result, ok
}

type resultOperations struct {
	board
	p *purgatory.DelayedOperationPurgatory[uint64]
}

func newResultOperations() results {
	return &resultOperations{p: newPurgatory[uint64]("results")}
}

type applied struct {
	operation.DelayedOperation
	from   *board
	id     uint64
	result any
	ended  chan any
}

func (a *applied) TryComplete() (ok bool) {
	a.result, ok = a.from.take(a.id)
	return ok
}
func (a *applied) OnComplete()   { a.ended <- a.result }
func (a *applied) OnExpiration() {}

func (r *resultOperations) Register(id uint64) func() any {
	op := &applied{from: &r.board, id: id, ended: make(chan any, 1)}
	if _, err := r.p.TryCompleteElseWatch(op, timeout, id); err != nil {
		panic(err) // the purgatory is open and has no bound
	}
	return func() any { return <-op.ended }
}

func (r *resultOperations) Trigger(id uint64, result any) {
	r.put(id, result)
	r.p.CheckAndComplete(id)
}

func (r *resultOperations) Close() { shutdown(r.p) }

type resultAwaits struct {
	board
	p *purgatory.DelayedOperationPurgatory[uint64]
}

func newResultAwaits() results { return &resultAwaits{p: newPurgatory[uint64]("results")} }

// Register leaves the registering to AwaitValue: a result that comes before it is not lost.
func (r *resultAwaits) Register(id uint64) func() any {
	return func() any {
		result, err := purgatory.AwaitValue(context.Background(), r.p, timeout, func() (any, bool) { return r.take(id) }, id)
		if err != nil {
			return err
		}
		return result
	}
}

func (r *resultAwaits) Trigger(id uint64, result any) {
	r.put(id, result)
	r.p.CheckAndComplete(id)
}

func (r *resultAwaits) Close() { shutdown(r.p) }

// sameGoroutine registers, triggers and receives n times on one goroutine, and returns
// what one takes.
func sameGoroutine(r results, n int) (figures, bool) {
	right := true
	before, start := used(), time.Now()
	for i := range uint64(n) {
		receive := r.Register(i)
		r.Trigger(i, i)
		right = receive() == any(i) && right
	}
	f := figures{elapsed: time.Since(start) / time.Duration(n)}
	before.per(n, &f)
	return f, right
}

// otherGoroutine is sameGoroutine with Trigger called by another goroutine, which hears
// of the id through a channel.
func otherGoroutine(r results, n int) (figures, bool) {
	ids := make(chan uint64)
	var applier sync.WaitGroup
	applier.Go(func() {
		for id := range ids {
			r.Trigger(id, id)
		}
	})
	right := true
	before, start := used(), time.Now()
	for i := range uint64(n) {
		receive := r.Register(i)
		ids <- i
		right = receive() == any(i) && right
	}
	f := figures{elapsed: time.Since(start) / time.Duration(n)}
	before.per(n, &f)
	close(ids)
	applier.Wait()
	return f, right
}
