package main

import (
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// request is an operation of the mix. It checks what was promised to it.
type request struct {
	operation.DelayedOperation
	mix    *mix
	keys   [3]uint64
	nkeys  int
	clumsy misdeed

	met       atomic.Bool  // its condition
	told      atomic.Int64 // when a check that had to see met was through; 0: none was
	notBefore atomic.Int64 // it must not expire before

	inside atomic.Int32 // goroutines in its methods
	ended  atomic.Int32
	tries  atomic.Int32
}

// misdeed is what a request's methods do wrong.
type misdeed uint8

const (
	none misdeed = iota
	panicsInTry
	panicsInComplete
)

// lateness is how long after a check a request may still expire: another goroutine
// was trying it, and that one may have lost its processor for a while.
const lateness = 2 * time.Second

func (r *request) TryComplete() bool {
	r.enter("TryComplete")
	defer r.inside.Add(-1)
	if r.ended.Load() != 0 {
		r.mix.violated("TryComplete after the end")
	}
	if r.tries.Add(1) == 3 && r.clumsy == panicsInTry {
		r.mix.thrown.Add(1)
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
	if r.clumsy == panicsInComplete {
		r.mix.thrown.Add(1)
		panic("OnComplete of a soak's request")
	}
}

func (r *request) expired() {
	now := r.mix.now()
	if early := time.Duration(r.notBefore.Load() - now); early > 0 {
		r.mix.violated("expired %v early", early)
	}
	if told := r.told.Load(); told > 0 && r.clumsy != panicsInTry && time.Duration(now-told) > lateness {
		r.mix.violated("expired %v after a check that must have seen its condition", time.Duration(now-told))
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
