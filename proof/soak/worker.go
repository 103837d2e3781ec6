package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// remembered is the number of requests that a worker keeps for later steps. Older ones
// wait for their timeout, or for a call on a key that they share.
const remembered = 512

// worker is one goroutine of the mix.
type worker struct {
	mix      *mix
	random   *rand.Rand
	requests [remembered]*request
}

var errChanged = errors.New("the soak has changed its mind")

func (w *worker) run() {
	for !w.mix.stop.Load() {
		w.mix.gate.RLock()
		for range 64 { // so that the cost of the lock is small against the steps
			w.step()
		}
		w.mix.gate.RUnlock()
		w.mix.steps.Add(64)
	}
}

// step makes one random call. The shares of the calls are in hundredths. Registrations
// are about as frequent as the calls that end requests, so that some requests end by a
// call and others by their timeout.
func (w *worker) step() {
	p := w.mix.p
	place := w.random.IntN(remembered)
	r := w.requests[place]
	share := w.random.IntN(100)
	if r == nil || share < 45 {
		w.requests[place] = w.register()
		return
	}
	at := w.random.IntN(r.nkeys)
	key := r.keys[at]
	switch {
	case share < 65:
		r.met.Store(true)
		p.CheckAndComplete(key)
		r.checked.CompareAndSwap(0, w.mix.now())
	case share < 70:
		p.CheckAndCompleteUpTo(key, w.reach(r, at))
	case share < 78:
		r.met.Store(true)
		p.Signal(key)
		r.checked.CompareAndSwap(0, w.mix.now())
	case share < 80:
		p.SignalUpTo(key, w.reach(r, at))
	case share < 85:
		p.ForceComplete(r)
	case share < 89:
		p.Cancel(r, errChanged)
	case share < 91:
		p.CancelForKey(key, errChanged)
	case share < 99:
		w.extend(r)
	case share == 99:
		w.turn()
	default:
		p.CheckAndComplete(key)
	}
}

// reach returns a random position. If r waits for this position or a lower one of its key, its
// condition is met from now on.
func (w *worker) reach(r *request, key int) (position int64) {
	position = int64(w.random.IntN(8))
	if r.at[key] <= position {
		r.met.Store(true)
	}
	return position
}

func (w *worker) register() *request {
	m := w.mix
	r := &request{mix: m, nkeys: 1 + w.random.IntN(3)}
	newest := m.keys.Add(uint64(w.random.IntN(2)))
	for i := range r.nkeys {
		r.keys[i] = newest + uint64(w.random.IntN(64)) // shared with requests that are made at about the same time
	}
	switch w.random.IntN(2000) {
	case 0:
		r.fault = panicsInTry
	case 1:
		r.fault = panicsInComplete
	}
	r.met.Store(w.random.IntN(50) == 0)
	timeout := w.timeout()
	r.notBefore.Store(m.now() + int64(timeout))
	for i := range r.nkeys {
		r.at[i] = purgatory.AnyPosition
	}
	var err error
	if w.random.IntN(4) == 0 {
		at := make([]purgatory.KeyPosition[uint64], r.nkeys)
		for i := range at {
			r.at[i] = int64(w.random.IntN(8))
			at[i] = purgatory.KeyPosition[uint64]{Key: r.keys[i], Position: r.at[i]}
		}
		_, err = m.p.TryCompleteElseWatchAt(r, timeout, at...)
	} else {
		_, err = m.p.TryCompleteElseWatch(r, timeout, r.keys[:r.nkeys]...)
	}
	if err != nil {
		m.violated("refused: %v", err)
		return nil
	}
	m.accepted.Add(1)
	return r
}

// timeout returns mostly a short timeout, and sometimes one that is longer than lateness,
// so that a lost wake-up shows.
func (w *worker) timeout() time.Duration {
	switch w.random.IntN(16) {
	case 0:
		return 0
	case 1:
		return 2*lateness + time.Duration(w.random.IntN(1000))*time.Millisecond
	default:
		return time.Duration(w.random.IntN(300_000)) * time.Microsecond
	}
}

// extend moves the deadline of r. Until Extend has returned, it is unknown whether r has
// the old deadline or the new one, so r must not expire before the earlier of the two.
func (w *worker) extend(r *request) {
	timeout := w.timeout()
	deadline := w.mix.now() + int64(timeout)
	r.notBefore.Store(min(deadline, r.notBefore.Load()))
	if w.mix.p.Extend(r, timeout) {
		r.notBefore.Store(deadline)
	}
}

// turn makes one call about a tide: mostly the tide rises, and a check or a signal follows.
func (w *worker) turn() {
	i := w.random.IntN(len(w.mix.tides))
	key := firstTide + uint64(i)
	switch w.random.IntN(20) {
	case 0:
		w.await(&w.mix.tides[i], key)
	case 1:
		w.mix.p.CancelForKey(key, errChanged)
	case 2, 3, 4:
		w.mix.tides[i].Add(1)
		w.mix.p.Signal(key)
	default:
		w.mix.tides[i].Add(1)
		w.mix.p.CheckAndComplete(key)
	}
}

// await waits until a tide has risen by up to three.
func (w *worker) await(tide *atomic.Int64, key uint64) {
	enough := tide.Load() + int64(w.random.IntN(4))
	there := tide.Load() >= enough
	err := w.mix.p.Await(context.Background(), time.Duration(1+w.random.IntN(2000))*time.Microsecond,
		func() bool { return tide.Load() >= enough }, key)
	if there && err != nil {
		w.mix.violated("Await for what is true: %v", err)
	}
	w.mix.accepted.Add(1)
	switch {
	case err == nil:
		w.mix.ended[operation.Satisfied].Add(1)
	case errors.Is(err, purgatory.ErrExpired):
		w.mix.ended[operation.Expired].Add(1)
		w.mix.awaited.Add(1)
	case errors.Is(err, errChanged):
		w.mix.ended[operation.Cancelled].Add(1)
	default:
		w.mix.violated("Await: %v", err)
	}
}

// cancelAll cancels the requests that the worker has kept.
func (w *worker) cancelAll() {
	for i, r := range w.requests {
		if r != nil {
			w.mix.p.Cancel(r, errChanged)
			w.requests[i] = nil
		}
	}
}
