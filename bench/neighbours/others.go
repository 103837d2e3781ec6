package main

import (
	"strconv"
	"sync"

	"go.etcd.io/etcd/pkg/v3/wait"
	"go.temporal.io/server/common/clock"
	"go.temporal.io/server/common/definition"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/namespace"
	"go.temporal.io/server/service/history/events"
)

// temporal is the notifier that wakes long polls for the history of a workflow. A waiter
// uses it as they do: subscribe, look at the notifications, unsubscribe.
type temporal struct {
	goroutines
	notifier *events.NotifierImpl
	keys     []definition.WorkflowKey
	closed   chan struct{}
}

func newTemporal(keys int) subject {
	s := &temporal{closed: make(chan struct{})}
	s.notifier = events.NewNotifier(clock.NewRealTimeSource(), metrics.NoopMetricsHandler,
		func(_ namespace.ID, workflow string) int32 { return int32(len(workflow)) })
	s.notifier.Start()
	for i := range keys {
		s.keys = append(s.keys, definition.NewWorkflowKey("namespace", "workflow-"+strconv.Itoa(i), "run"))
	}
	return s
}

func (s *temporal) Start(key int, position int64, done func()) {
	s.all.Go(func() {
		id, notifications, err := s.notifier.WatchHistoryEvent(s.keys[key])
		if err != nil {
			panic(err) // two subscribers with one UUID
		}
		s.waiting.Add(1)
		for open := true; open; {
			select {
			case n := <-notifications:
				open = n.NextEventID < position
			case <-s.closed:
				open = false
			}
		}
		if err := s.notifier.UnwatchHistoryEvent(s.keys[key], id); err != nil {
			panic(err) // it is subscribed
		}
		s.ended(done)
	})
}

func (s *temporal) Advance(key int, position int64) {
	s.notifier.NotifyNewHistoryEvent(&events.Notification{ID: s.keys[key], NextEventID: position})
}

func (s *temporal) Close() {
	s.quit.Store(true)
	close(s.closed)
	s.all.Wait()
	s.notifier.Stop()
}

// waitTime is what etcd's server waits with until an index is applied: one list for each
// key, because a list has no keys.
type waitTime struct {
	goroutines
	lists []wait.WaitTime
}

func newWaitTime(keys int) subject {
	s := &waitTime{lists: make([]wait.WaitTime, keys)}
	for i := range s.lists {
		s.lists[i] = wait.NewTimeList()
	}
	return s
}

func (s *waitTime) Start(key int, position int64, done func()) {
	s.all.Go(func() {
		reached := s.lists[key].Wait(uint64(position))
		s.waiting.Add(1)
		<-reached
		s.ended(done)
	})
}

func (s *waitTime) Advance(key int, position int64) { s.lists[key].Trigger(uint64(position)) }

func (s *waitTime) Close() {
	s.quit.Store(true)
	for _, l := range s.lists {
		l.Trigger(never)
	}
	s.all.Wait()
}

// cond is how Kubernetes' watch cache waits until it is fresh enough: readers wait for a
// condition variable on the read side of a lock, and each event wakes all of them.
type cond struct {
	goroutines
	keys []condKey
}

type condKey struct {
	mu       sync.RWMutex
	changed  sync.Cond // on the read side of mu
	position int64     // guarded by mu
}

func newCond(keys int) subject {
	s := &cond{keys: make([]condKey, keys)}
	for i := range s.keys {
		s.keys[i].changed.L = s.keys[i].mu.RLocker()
	}
	return s
}

func (s *cond) Start(key int, position int64, done func()) {
	s.all.Go(func() {
		k := &s.keys[key]
		k.mu.RLock()
		s.waiting.Add(1) // Advance locks mu, and so comes after Wait
		for k.position < position {
			k.changed.Wait()
		}
		k.mu.RUnlock()
		s.ended(done)
	})
}

func (s *cond) Advance(key int, position int64) {
	k := &s.keys[key]
	k.mu.Lock()
	k.position = position
	k.mu.Unlock()
	k.changed.Broadcast()
}

func (s *cond) Close() {
	s.quit.Store(true)
	for i := range s.keys {
		s.Advance(i, never)
	}
	s.all.Wait()
}
