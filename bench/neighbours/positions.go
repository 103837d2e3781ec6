package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/watermark"
)

// positions lets goroutines wait until a key has come as far as a position. It is what is compared in most shapes.
type positions interface {
	// Wait blocks until key has come as far as position, or returns an error when ctx ends.
	Wait(ctx context.Context, key int, position int64) error
	// Advance moves key to a position and wakes those that wait for it. A key has one goroutine that advances it.
	Advance(key int, position int64)
	// Waiting returns how many wait.
	Waiting() int
	// Close releases what the peer holds. Nobody waits any more.
	Close()
}

// keys is how many keys each has.
const keys = 2

var positionMakers = []maker[positions]{
	{hand, "", newByHand},
	{ours, "`AwaitAt`", func() positions { return newAwaits(timeout) }},
	{ours, "operation and channel", func() positions { return newOperations(timeout) }},
	{ours, "`watermark`", func() positions { return newShared(purgatory.NoTimeout) }},
	{theirs, "badger `WaterMark`", newWaterMarks},
	{theirs, "etcd `WaitTime`", newWaitTimes},
}

// untimedPositions are positionMakers of which none has a timeout.
var untimedPositions = []maker[positions]{
	{hand, "", newByHand},
	{ours, "`AwaitAt`", func() positions { return newAwaits(purgatory.NoTimeout) }},
	{ours, "operation and channel", func() positions { return newOperations(purgatory.NoTimeout) }},
	{ours, "`watermark`", func() positions { return newShared(purgatory.NoTimeout) }},
	{theirs, "badger `WaterMark`", newWaterMarks},
	{theirs, "etcd `WaitTime`", newWaitTimes},
}

// timedPositions are positionMakers of which all have a timeout.
var timedPositions = []maker[positions]{
	{hand, "`time.NewTimer`", func() positions { return &timedByHand{newByHand().(*byHand)} }},
	{hand, "`context.WithTimeout`", inTime(newByHand)},
	{ours, "`AwaitAt`", func() positions { return newAwaits(timeout) }},
	{ours, "operation and channel", func() positions { return newOperations(timeout) }},
	{ours, "`watermark`", func() positions { return newShared(timeout) }},
	{theirs, "badger `WaterMark`, `context.WithTimeout`", inTime(newWaterMarks)},
	{theirs, "etcd `WaitTime`, `context.WithTimeout`", inTime(newWaitTimes)},
}

// timeout is that of every wait in a purgatory. The others have none, except in the shapes that say so.
const timeout = time.Minute

// withContext gives each wait of its positions a context that ends after the timeout.
type withContext struct{ positions }

func inTime(untimed func() positions) func() positions {
	return func() positions { return withContext{untimed()} }
}

func (w withContext) Wait(ctx context.Context, key int, position int64) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return w.positions.Wait(ctx, key, position)
}

// byHand is what one writes: a mutex and a map of channels for each key. Equal waiters share a channel.
type byHand struct {
	waiting atomic.Int64
	keys    [keys]handKey
}

type handKey struct {
	mu       sync.Mutex
	position int64
	waiters  map[int64]*handWaiters
}

type handWaiters struct {
	reached chan struct{}
	n       int
}

func newByHand() positions {
	s := new(byHand)
	for i := range s.keys {
		s.keys[i].waiters = make(map[int64]*handWaiters)
	}
	return s
}

func (s *byHand) Wait(ctx context.Context, key int, position int64) error {
	w := s.enter(key, position)
	if w == nil {
		return nil
	}
	defer s.waiting.Add(-1)
	select {
	case <-w.reached:
		return nil
	case <-ctx.Done():
		s.leave(w, key, position)
		return context.Cause(ctx)
	}
}

// enter returns the waiters of a position, with one more, or nil if key has come as far.
func (s *byHand) enter(key int, position int64) *handWaiters {
	k := &s.keys[key]
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.position >= position {
		return nil
	}
	w := k.waiters[position]
	if w == nil {
		w = &handWaiters{reached: make(chan struct{})}
		k.waiters[position] = w
	}
	w.n++
	s.waiting.Add(1)
	return w
}

func (s *byHand) leave(w *handWaiters, key int, position int64) {
	k := &s.keys[key]
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.n--; w.n == 0 && k.waiters[position] == w {
		delete(k.waiters, position)
	}
}

func (s *byHand) Advance(key int, position int64) {
	k := &s.keys[key]
	k.mu.Lock()
	defer k.mu.Unlock()
	if position-k.position <= int64(len(k.waiters)) {
		for at := k.position + 1; at <= position; at++ {
			k.wake(at)
		}
	} else {
		for at := range k.waiters {
			if at <= position {
				k.wake(at)
			}
		}
	}
	k.position = position
}

func (k *handKey) wake(at int64) {
	if w := k.waiters[at]; w != nil {
		close(w.reached)
		delete(k.waiters, at)
	}
}

func (s *byHand) Waiting() int { return int(s.waiting.Load()) }
func (s *byHand) Close()       {}

// timedByHand is byHand with a timer for each wait.
type timedByHand struct{ *byHand }

func (s *timedByHand) Wait(ctx context.Context, key int, position int64) error {
	w := s.enter(key, position)
	if w == nil {
		return nil
	}
	defer s.waiting.Add(-1)
	expiry := time.NewTimer(timeout)
	defer expiry.Stop()
	select {
	case <-w.reached:
		return nil
	case <-expiry.C:
		s.leave(w, key, position)
		return context.DeadlineExceeded
	case <-ctx.Done():
		s.leave(w, key, position)
		return context.Cause(ctx)
	}
}

// inPurgatory is what the forms of the library share.
type inPurgatory struct {
	p       *purgatory.DelayedOperationPurgatory[int]
	timeout time.Duration
	at      [keys]atomic.Int64
}

func newPurgatory[K comparable](opts ...purgatory.Option) *purgatory.DelayedOperationPurgatory[K] {
	p, err := purgatory.New[K]("neighbours", opts...)
	must(err)
	return p
}

func (s *inPurgatory) Advance(key int, position int64) {
	s.at[key].Store(position)
	s.p.CheckAndCompleteUpTo(key, position)
}

func (s *inPurgatory) Waiting() int { return s.p.NumDelayed() }
func (s *inPurgatory) Close()       { shutdown(s.p) }

// shutdown ends a purgatory, and returns when its goroutines have ended.
func shutdown[K comparable](p *purgatory.DelayedOperationPurgatory[K]) {
	must(p.Shutdown(context.Background()))
}

// awaits blocks in AwaitAt.
type awaits struct{ inPurgatory }

func newAwaits(timeout time.Duration) *awaits {
	return &awaits{inPurgatory{p: newPurgatory[int](), timeout: timeout}}
}

func (s *awaits) Wait(ctx context.Context, key int, position int64) error {
	ready := func() bool { return s.at[key].Load() >= position }
	return s.p.AwaitAt(ctx, s.timeout, ready, purgatory.KeyPosition[int]{Key: key, Position: position})
}

// operations blocks on a channel that an operation closes.
type operations struct{ inPurgatory }

func newOperations(timeout time.Duration) *operations {
	return &operations{inPurgatory{p: newPurgatory[int](), timeout: timeout}}
}

type positionReached struct {
	operation.DelayedOperation
	at       *atomic.Int64
	position int64
	ended    chan struct{}
}

func (o *positionReached) TryComplete() bool { return o.at.Load() >= o.position }
func (o *positionReached) OnComplete()       { close(o.ended) }
func (o *positionReached) OnExpiration()     {}

func (s *operations) Wait(ctx context.Context, key int, position int64) error {
	op := &positionReached{at: &s.at[key], position: position, ended: make(chan struct{})}
	if _, err := s.p.TryCompleteElseWatchAt(op, s.timeout, purgatory.KeyPosition[int]{Key: key, Position: position}); err != nil {
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

// shared blocks in Watermark.Await, where equal waiters share an operation.
type shared struct {
	inPurgatory
	waiting atomic.Int64
	marks   [keys]*watermark.Watermark[int]
}

func newShared(timeout time.Duration) positions {
	s := &shared{inPurgatory: inPurgatory{p: newPurgatory[int](), timeout: timeout}}
	for key := range s.marks {
		s.marks[key] = watermark.New(s.p, key, 0)
	}
	return s
}

func (s *shared) Wait(ctx context.Context, key int, position int64) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	return s.marks[key].Await(ctx, s.timeout, position)
}

func (s *shared) Advance(key int, position int64) { s.marks[key].Advance(position) }
func (s *shared) Waiting() int                    { return int(s.waiting.Load()) }
