package main

import (
	"context"
	"sync"

	"go.etcd.io/etcd/pkg/v3/wait"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// results hands one result to the goroutine that has registered its id, as a server does that proposes to a log and
// answers when its proposal is applied.
type results interface {
	// Register makes id known, and returns a function that blocks until the result is there.
	Register(id uint64) (receive func() any)
	// Trigger hands over the result.
	Trigger(id uint64, result any)
	Close()
}

var resultMakers = []maker[results]{
	{hand, "", newHandResults},
	{ours, "operation and channel", func() results { return resultOperations{newBoard()} }},
	{theirs, "etcd `Wait`", func() results { return etcdWait{wait.New()} }},
}

// blockingResults register only when they begin to wait: on one goroutine they would have nothing to wait for.
var blockingResults = []maker[results]{
	{ours, "`AwaitValue`", func() results { return resultAwaits{newBoard()} }},
}

// handResults is a mutex and a map of channels.
type handResults struct {
	mu      sync.Mutex
	waiting map[uint64]chan any
}

func newHandResults() results { return &handResults{waiting: make(map[uint64]chan any)} }

func (h *handResults) Register(id uint64) func() any {
	result := make(chan any, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[id] = result
	return func() any { return <-result }
}

func (h *handResults) Trigger(id uint64, result any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if waiting, ok := h.waiting[id]; ok {
		waiting <- result
		delete(h.waiting, id)
	}
}

func (h *handResults) Close() {}

// etcdWait has no timeout: etcd's server makes a context for each proposal.
type etcdWait struct{ wait.Wait }

func (w etcdWait) Register(id uint64) func() any {
	result := w.Wait.Register(id)
	return func() any { return <-result }
}

func (w etcdWait) Close() {}

// board holds the results that have come: the state that a purgatory's conditions read.
type board struct {
	p       *purgatory.DelayedOperationPurgatory[uint64]
	mu      sync.Mutex
	results map[uint64]any
}

func newBoard() *board {
	return &board{p: newPurgatory[uint64](), results: make(map[uint64]any)}
}

func (b *board) take(id uint64) (result any, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if result, ok = b.results[id]; ok {
		delete(b.results, id)
	}
	return result, ok
}

func (b *board) Trigger(id uint64, result any) {
	b.mu.Lock()
	b.results[id] = result
	b.mu.Unlock()
	b.p.CheckAndComplete(id)
}

func (b *board) Close() { shutdown(b.p) }

type resultOperations struct{ *board }

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

func (r resultOperations) Register(id uint64) func() any {
	op := &applied{from: r.board, id: id, ended: make(chan any, 1)}
	_, err := r.p.TryCompleteElseWatch(op, timeout, id)
	must(err)
	return func() any { return <-op.ended }
}

type resultAwaits struct{ *board }

// Register leaves the registering to AwaitValue: a result that comes before it is not lost.
func (r resultAwaits) Register(id uint64) func() any {
	return func() any {
		result, err := purgatory.AwaitValue(context.Background(), r.p, timeout, func() (any, bool) { return r.take(id) }, id)
		must(err)
		return result
	}
}
