package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// timeout is that of every wait in a purgatory. The neighbours are given none: theirs is a
// matter of the caller's.
const timeout = time.Minute

func newPurgatory[K comparable](name string) *purgatory.DelayedOperationPurgatory[K] {
	p, err := purgatory.New[K](name)
	if err != nil {
		panic(err) // it has no options that could be wrong
	}
	return p
}

// operations is a purgatory in which an operation waits, and no goroutine.
type operations struct {
	p         *purgatory.DelayedOperationPurgatory[int]
	positions []atomic.Int64
}

func newOperations(keys int) subject {
	return &operations{newPurgatory[int]("operations"), make([]atomic.Int64, keys)}
}

type positionReached struct {
	operation.DelayedOperation
	now  *atomic.Int64
	want int64
	done func()
}

func (o *positionReached) TryComplete() bool { return o.now.Load() >= o.want }
func (o *positionReached) OnExpiration()     {}
func (o *positionReached) OnComplete() {
	if o.Outcome() == operation.Satisfied {
		o.done()
	}
}

func (s *operations) Start(key int, position int64, done func()) {
	op := &positionReached{now: &s.positions[key], want: position, done: done}
	if _, err := s.p.TryCompleteElseWatchAt(op, timeout, purgatory.KeyPosition[int]{Key: key, Position: position}); err != nil {
		panic(err) // the purgatory is open and has no bound
	}
}

func (s *operations) Advance(key int, position int64) {
	s.positions[key].Store(position)
	s.p.CheckAndCompleteUpTo(key, position)
}

func (s *operations) Waiting() int { return s.p.NumDelayed() }
func (s *operations) Close()       { shutdown(s.p) }

// awaits is a purgatory in which a goroutine waits, by AwaitAt.
type awaits struct {
	p         *purgatory.DelayedOperationPurgatory[int]
	positions []atomic.Int64
	all       sync.WaitGroup
}

func newAwaits(keys int) subject {
	return &awaits{p: newPurgatory[int]("awaits"), positions: make([]atomic.Int64, keys)}
}

func (s *awaits) Start(key int, position int64, done func()) {
	s.all.Go(func() {
		ready := func() bool { return s.positions[key].Load() >= position }
		if s.p.AwaitAt(context.Background(), timeout, ready, purgatory.KeyPosition[int]{Key: key, Position: position}) == nil {
			done()
		}
	})
}

func (s *awaits) Advance(key int, position int64) {
	s.positions[key].Store(position)
	s.p.CheckAndCompleteUpTo(key, position)
}

func (s *awaits) Waiting() int { return s.p.NumDelayed() }

func (s *awaits) Close() {
	shutdown(s.p)
	s.all.Wait()
}

// shutdown ends a purgatory and what waits in it.
func shutdown[K comparable](p *purgatory.DelayedOperationPurgatory[K]) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Shutdown(ended) // its error is that of the context
}
