package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// readyMakers wait for the index that a log has been applied to, each with a timeout.
var readyMakers = []maker[positions]{
	{hand, "a list of subscribers, `time.NewTimer`", newReadyTargets},
	{ours, "`watermark`", func() positions { return newShared(timeout) }},
	{ours, "`AwaitAt`", func() positions { return newAwaits(timeout) }},
}

// readyTargets is rqlite's ready target restated, for each key: a list of subscribers, over which each advance goes. Who
// leaves goes over it, too; rqlite's reads leave theirs there.
type readyTargets struct {
	waiting atomic.Int64
	keys    [keys]readyTarget
}

type readyTarget struct {
	mu          sync.Mutex
	at          int64
	subscribers []*readySubscriber
}

type readySubscriber struct {
	target int64
	ready  chan struct{}
}

func newReadyTargets() positions { return new(readyTargets) }

func (r *readyTarget) subscribe(target int64) *readySubscriber {
	s := &readySubscriber{target, make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at >= target {
		close(s.ready)
	} else {
		r.subscribers = append(r.subscribers, s)
	}
	return s
}

func (r *readyTarget) unsubscribe(s *readySubscriber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.subscribers {
		if other == s {
			r.subscribers = append(r.subscribers[:i], r.subscribers[i+1:]...)
			return
		}
	}
}

func (r *readyTarget) signal(at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = at
	further := r.subscribers[:0]
	for _, s := range r.subscribers {
		if s.target <= at {
			close(s.ready)
		} else {
			further = append(further, s)
		}
	}
	clear(r.subscribers[len(further):])
	r.subscribers = further
}

func (s *readyTargets) Wait(ctx context.Context, key int, position int64) error {
	r := &s.keys[key]
	subscriber := r.subscribe(position)
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	expiry := time.NewTimer(timeout)
	defer expiry.Stop()
	select {
	case <-subscriber.ready:
		return nil
	case <-expiry.C:
		r.unsubscribe(subscriber)
		return purgatory.ErrExpired
	case <-ctx.Done():
		r.unsubscribe(subscriber)
		return context.Cause(ctx)
	}
}

func (s *readyTargets) Advance(key int, position int64) { s.keys[key].signal(position) }
func (s *readyTargets) Waiting() int                    { return int(s.waiting.Load()) }
func (s *readyTargets) Close()                          {}

// readied is waitBelow by the processor's time.
func readied(s positions, n int, window time.Duration) map[string]float64 {
	return ofProcessor(waitBelow(s, n, window))
}
