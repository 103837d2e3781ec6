package main

import (
	"context"
	"sync"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// either lets goroutines wait until one of two keys has come as far as a position.
type either interface {
	// WaitEither blocks until key 0 or key 1 has come as far as position, or returns an error when ctx ends.
	WaitEither(ctx context.Context, position int64) error
	Advance(key int, position int64)
	Close()
}

var untimedEither = []maker[either]{
	{hand, "", func() either { return newHandEither() }},
	{ours, "`AwaitAt`", func() either { return newAwaits(purgatory.NoTimeout) }},
	{ours, "operation and channel", func() either { return newOperations(purgatory.NoTimeout) }},
	{theirs, "etcd `WaitTime`", func() either { return newWaitTimes().(*waitTimes) }},
}

var timedEither = []maker[either]{
	{hand, "`time.NewTimer`", func() either { return &timedHandEither{newHandEither()} }},
	{hand, "`context.WithTimeout`", func() either { return eitherWithContext{newHandEither()} }},
	{ours, "`AwaitAt`", func() either { return newAwaits(timeout) }},
	{ours, "operation and channel", func() either { return newOperations(timeout) }},
	{theirs, "etcd `WaitTime`, `context.WithTimeout`", func() either { return eitherWithContext{newWaitTimes().(*waitTimes)} }},
}

// waitForEither is waitAndWake for one pair of goroutines and both keys, which advance in turn.
func waitForEither(s either, _ int, window time.Duration) map[string]float64 {
	reach := make(chan int64, 1)
	var waker sync.WaitGroup
	waker.Go(func() {
		for position := range reach {
			s.Advance(int(position%keys), position)
		}
	})
	position := int64(0)
	r := meter.Loop(1, window, 100, func(_, n int) {
		for range n {
			position++
			reach <- position
			must(s.WaitEither(context.Background(), position))
		}
	})
	close(reach)
	waker.Wait()
	return result.PerOp(r)
}

// eitherWithContext is withContext for two keys.
type eitherWithContext struct{ either }

func (w eitherWithContext) WaitEither(ctx context.Context, position int64) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return w.either.WaitEither(ctx, position)
}

// handEither is a condition variable with contexts: a mutex, and a channel that the next advance closes.
type handEither struct {
	mu       sync.Mutex
	at       [keys]int64
	advanced chan struct{}
}

func newHandEither() *handEither { return &handEither{advanced: make(chan struct{})} }

// advances returns a channel that the next advance closes, or nil if position is reached.
func (s *handEither) advances(position int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[0] >= position || s.at[1] >= position {
		return nil
	}
	return s.advanced
}

func (s *handEither) WaitEither(ctx context.Context, position int64) error {
	for advanced := s.advances(position); advanced != nil; advanced = s.advances(position) {
		select {
		case <-advanced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *handEither) Advance(key int, position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[key] = position
	close(s.advanced)
	s.advanced = make(chan struct{})
}

func (s *handEither) Close() {}

// timedHandEither is handEither with a timer for each wait.
type timedHandEither struct{ *handEither }

func (s *timedHandEither) WaitEither(ctx context.Context, position int64) error {
	advanced := s.advances(position)
	if advanced == nil {
		return nil
	}
	expiry := time.NewTimer(timeout)
	defer expiry.Stop()
	for ; advanced != nil; advanced = s.advances(position) {
		select {
		case <-advanced:
		case <-expiry.C:
			return context.DeadlineExceeded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *inPurgatory) eitherReached(position int64) bool {
	return s.at[0].Load() >= position || s.at[1].Load() >= position
}

func (s *awaits) WaitEither(ctx context.Context, position int64) error {
	return s.p.AwaitAt(ctx, s.timeout, func() bool { return s.eitherReached(position) },
		purgatory.KeyPosition[int]{Key: 0, Position: position}, purgatory.KeyPosition[int]{Key: 1, Position: position})
}

type eitherReached struct {
	operation.DelayedOperation
	in       *inPurgatory
	position int64
	ended    chan struct{}
}

func (o *eitherReached) TryComplete() bool { return o.in.eitherReached(o.position) }
func (o *eitherReached) OnComplete()       { close(o.ended) }
func (o *eitherReached) OnExpiration()     {}

func (s *operations) WaitEither(ctx context.Context, position int64) error {
	op := &eitherReached{in: &s.inPurgatory, position: position, ended: make(chan struct{})}
	_, err := s.p.TryCompleteElseWatchAt(op, s.timeout,
		purgatory.KeyPosition[int]{Key: 0, Position: position}, purgatory.KeyPosition[int]{Key: 1, Position: position})
	if err != nil {
		return err
	}
	select {
	case <-op.ended:
	case <-ctx.Done():
		s.p.Cancel(op, context.Cause(ctx))
		<-op.ended
	}
	return op.Cause()
}

// WaitEither leaves a wait in the list of the key that does not come first, until that key comes, too.
func (s *waitTimes) WaitEither(ctx context.Context, position int64) error {
	select {
	case <-s.lists[0].Wait(uint64(position)):
		return nil
	case <-s.lists[1].Wait(uint64(position)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
