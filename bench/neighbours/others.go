package main

import (
	"context"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
	"go.etcd.io/etcd/pkg/v3/wait"
)

// waterMarks has what badger's transactions wait with until what they read is written: a goroutine for each key, which
// owns the waiters and hears of everything through a channel.
type waterMarks struct {
	waiting atomic.Int64 // or about to: when the goroutine has heard of them is not known
	marks   [keys]y.WaterMark
	closer  *z.Closer
}

func newWaterMarks() positions {
	s := &waterMarks{closer: z.NewCloser(keys)}
	for i := range s.marks {
		s.marks[i].Init(s.closer)
	}
	return s
}

func (s *waterMarks) Wait(ctx context.Context, key int, position int64) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	return s.marks[key].WaitForMark(ctx, uint64(position))
}

// Advance begins and ends the position, as a transaction does: the mark follows.
func (s *waterMarks) Advance(key int, position int64) {
	s.marks[key].Begin(uint64(position))
	s.marks[key].Done(uint64(position))
}

func (s *waterMarks) Waiting() int { return int(s.waiting.Load()) }
func (s *waterMarks) Close()       { s.closer.SignalAndWait() }

// waitTimes has what etcd's server waits with until an index is applied: one list for each key, because a list has none.
type waitTimes struct {
	waiting atomic.Int64
	lists   [keys]wait.WaitTime
}

func newWaitTimes() positions {
	s := new(waitTimes)
	for i := range s.lists {
		s.lists[i] = wait.NewTimeList()
	}
	return s
}

func (s *waitTimes) Wait(ctx context.Context, key int, position int64) error {
	reached := s.lists[key].Wait(uint64(position))
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *waitTimes) Advance(key int, position int64) { s.lists[key].Trigger(uint64(position)) }
func (s *waitTimes) Waiting() int                    { return int(s.waiting.Load()) }
func (s *waitTimes) Close()                          {}
