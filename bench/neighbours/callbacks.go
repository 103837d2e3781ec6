package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// acks calls back when a position is acknowledged, as a leader does that answers its clients when a quorum has what they
// wrote. Callbacks never run on the goroutine that acknowledges.
type acks interface {
	// Register has callback called when position is acknowledged, or with an error when the timeout passes.
	Register(position int64, callback func(error))
	// Ack says that all up to position is acknowledged. It is called by one goroutine.
	Ack(position int64)
	Close()
}

var untimedAcks = []maker[acks]{
	{hand, "one goroutine, in order", func() acks { return newHandAcks(0) }},
	{hand, "a goroutine for each", func() acks { return &scatteredAcks{} }},
	{ours, "`SignalUpTo`", func() acks { return newSignalledAcks(purgatory.NoTimeout) }},
	{ours, "`SignalUpTo`, one worker, in order", func() acks {
		return newSignalledAcks(purgatory.NoTimeout, purgatory.WithWorkers(1))
	}},
}

var timedAcks = []maker[acks]{
	{hand, "one goroutine, in order, `time.AfterFunc`", func() acks { return newHandAcks(timeout) }},
	{ours, "`SignalUpTo`", func() acks { return newSignalledAcks(timeout) }},
	{ours, "`SignalUpTo`, one worker, in order", func() acks {
		return newSignalledAcks(timeout, purgatory.WithWorkers(1))
	}},
}

// oneCallback registers a callback, acknowledges its position, and waits until the callback has run.
func oneCallback(a acks, _ int, window time.Duration) map[string]float64 {
	position := int64(0)
	called := make(chan error, 1)
	callback := func(err error) { called <- err }
	return loop(window, 100, func() {
		position++
		a.Register(position, callback)
		a.Ack(position)
		must(<-called)
	})
}

// handAcks has a queue of callbacks, which are registered in order of position, and a goroutine that calls them.
type handAcks struct {
	timeout time.Duration // 0: none
	mu      sync.Mutex
	acked   int64
	waiting []handAck
	acks    chan struct{}
	ended   sync.WaitGroup
}

type handAck struct {
	position int64
	callback func(error)
	expiry   *time.Timer
}

func newHandAcks(timeout time.Duration) acks {
	a := &handAcks{timeout: timeout, acks: make(chan struct{}, 1)}
	a.ended.Go(func() {
		for range a.acks {
			for _, w := range a.takeAcked() {
				w.callback(nil)
			}
		}
	})
	return a
}

func (a *handAcks) Register(position int64, callback func(error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := handAck{position: position, callback: callback}
	if a.timeout > 0 {
		w.expiry = time.AfterFunc(a.timeout, func() { a.expire(position) })
	}
	a.waiting = append(a.waiting, w)
	if position <= a.acked {
		a.wake()
	}
}

func (a *handAcks) Ack(position int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acked = position
	if len(a.waiting) > 0 {
		a.wake()
	}
}

func (a *handAcks) wake() {
	select {
	case a.acks <- struct{}{}:
	default:
	}
}

func (a *handAcks) takeAcked() []handAck {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for ; n < len(a.waiting) && a.waiting[n].position <= a.acked; n++ {
		if w := a.waiting[n]; w.expiry != nil {
			w.expiry.Stop()
		}
	}
	acked := a.waiting[:n:n]
	a.waiting = a.waiting[n:]
	return acked
}

func (a *handAcks) expire(position int64) {
	a.mu.Lock()
	for i, w := range a.waiting {
		if w.position == position {
			a.waiting = append(a.waiting[:i:i], a.waiting[i+1:]...)
			a.mu.Unlock()
			w.callback(context.DeadlineExceeded)
			return
		}
	}
	a.mu.Unlock()
}

func (a *handAcks) Close() {
	close(a.acks)
	a.ended.Wait()
}

// scatteredAcks is handAcks without order: each callback has a goroutine.
type scatteredAcks struct{ handAcks }

func (a *scatteredAcks) Register(position int64, callback func(error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, handAck{position: position, callback: callback})
	a.callLocked()
}

func (a *scatteredAcks) Ack(position int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acked = position
	a.callLocked()
}

func (a *scatteredAcks) callLocked() {
	for len(a.waiting) > 0 && a.waiting[0].position <= a.acked {
		go a.waiting[0].callback(nil)
		a.waiting = a.waiting[1:]
	}
}

func (a *scatteredAcks) Close() {}

// signalledAcks has an operation for each callback.
type signalledAcks struct {
	p       *purgatory.DelayedOperationPurgatory[struct{}]
	timeout time.Duration
	acked   atomic.Int64
}

func newSignalledAcks(timeout time.Duration, opts ...purgatory.Option) acks {
	a := &signalledAcks{p: newPurgatory[struct{}](opts...), timeout: timeout}
	a.acked.Store(math.MinInt64)
	return a
}

type ack struct {
	operation.DelayedOperation
	acked    *atomic.Int64
	position int64
	callback func(error)
}

func (a *ack) TryComplete() bool { return a.acked.Load() >= a.position }
func (a *ack) OnExpiration()     {}

func (a *ack) OnComplete() {
	if a.Outcome() == operation.Satisfied {
		a.callback(nil)
	} else {
		a.callback(errors.New(a.Outcome().String()))
	}
}

func (a *signalledAcks) Register(position int64, callback func(error)) {
	op := &ack{acked: &a.acked, position: position, callback: callback}
	_, err := a.p.TryCompleteElseWatchAt(op, a.timeout, purgatory.KeyPosition[struct{}]{Position: position})
	must(err)
}

func (a *signalledAcks) Ack(position int64) {
	a.acked.Store(position)
	a.p.SignalUpTo(struct{}{}, position)
}

// Close answers those that wait, and returns when the workers have ended.
func (a *signalledAcks) Close() {
	must(a.p.Close())
	shutdown(a.p)
}
