package main

import (
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// request is an operation of the mix. It checks the promises that the purgatory makes to
// operations.
type request struct {
	operation.DelayedOperation
	mix   *mix
	keys  [3]uint64
	at    [3]int64 // the positions for which it waits
	nkeys int
	fault fault

	met       atomic.Bool  // whether its condition is met
	checked   atomic.Int64 // when the first check or signal after met was set had returned; 0 if none has
	notBefore atomic.Int64 // the request must not expire before this time

	inside atomic.Int32 // number of goroutines in its methods
	ended  atomic.Int32
	tries  atomic.Int32
}

// fault is what goes wrong in the methods of a request.
type fault uint8

const (
	none fault = iota
	panicsInTry
	panicsInComplete
)

// lateness is the time after a check during which a request may still expire. The check
// may have found another goroutine that was trying the request, and that goroutine may
// have been without a processor for a while.
const lateness = 2 * time.Second

func (r *request) TryComplete() bool {
	r.enter("TryComplete")
	defer r.inside.Add(-1)
	if r.ended.Load() != 0 {
		r.mix.violated("TryComplete after the end")
	}
	if r.tries.Add(1) == 3 && r.fault == panicsInTry {
		r.mix.thrown.Add(1)
		r.met.Store(false) // the check that this try belongs to counts for nothing
		panic("TryComplete of a soak's request")
	}
	return r.met.Load()
}

func (r *request) OnComplete() {
	r.enter("OnComplete")
	defer r.inside.Add(-1)
	if r.ended.Add(1) != 1 {
		r.mix.violated("OnComplete twice")
	}
	outcome := r.Outcome()
	r.mix.ended[outcome].Add(1)
	if outcome == operation.Expired {
		r.expired()
	}
	if r.fault == panicsInComplete {
		r.mix.thrown.Add(1)
		panic("OnComplete of a soak's request")
	}
}

func (r *request) expired() {
	now := r.mix.now()
	if early := time.Duration(r.notBefore.Load() - now); early > 0 {
		r.mix.violated("expired %v early", early)
	}
	if checked := r.checked.Load(); checked > 0 && r.fault != panicsInTry && time.Duration(now-checked) > lateness {
		r.mix.violated("expired %v after a check that must have seen its condition", time.Duration(now-checked))
	}
}

func (r *request) OnExpiration() {
	r.enter("OnExpiration")
	defer r.inside.Add(-1)
	if r.ended.Load() != 1 || r.Outcome() != operation.Expired {
		r.mix.violated("OnExpiration of one that is %v", r.Outcome())
	}
	r.mix.expirations.Add(1)
}

func (r *request) enter(method string) {
	if r.inside.Add(1) != 1 {
		r.mix.violated("%s beside another method of the same operation", method)
	}
}
