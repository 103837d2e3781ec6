package main

import (
	"context"
	"errors"
	"math/rand/v2"
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
	at := w.random.IntN(remembered)
	r := w.requests[at]
	share := w.random.IntN(100)
	if r == nil || share < 45 {
		w.requests[at] = w.register()
		return
	}
	key := r.keys[w.random.IntN(r.nkeys)]
	switch {
	case share < 65:
		r.met.Store(true)
		p.CheckAndComplete(key)
		r.checked.CompareAndSwap(0, w.mix.now())
	case share < 70:
		r.met.Store(true)
		p.CheckAndCompleteUpTo(key, int64(w.random.IntN(8)))
	case share < 78:
		r.met.Store(true)
		p.Signal(key)
		r.checked.CompareAndSwap(0, w.mix.now())
	case share < 80:
		r.met.Store(true)
		p.SignalUpTo(key, int64(w.random.IntN(8)))
	case share < 85:
		p.ForceComplete(r)
	case share < 89:
		p.Cancel(r, errChanged)
	case share < 91:
		p.CancelForKey(key, errChanged)
	case share < 99:
		w.extend(r)
	case share == 99 && w.random.IntN(20) == 0:
		w.await(key)
	default:
		p.CheckAndComplete(key)
	}
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
	var err error
	if w.random.IntN(4) == 0 {
		at := make([]purgatory.KeyPosition[uint64], r.nkeys)
		for i := range at {
			at[i] = purgatory.KeyPosition[uint64]{Key: r.keys[i], Position: int64(w.random.IntN(8))}
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

// await calls Await with a condition that is true from its first, second, third or fourth
// try on.
func (w *worker) await(key uint64) {
	tries, enough := 0, 1+w.random.IntN(4)
	err := w.mix.p.Await(context.Background(), time.Duration(1+w.random.IntN(2000))*time.Microsecond,
		func() bool { tries++; return tries >= enough }, key)
	if enough == 1 && err != nil {
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
