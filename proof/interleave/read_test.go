//go:build interleave

package interleave

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

var errRead = errors.New("the read fails")

// reader is one run of a scenario in which a goroutine waits with AwaitRead until a number is
// reached. Other goroutines raise the number, signal, cancel, close, or let time pass.
type reader struct {
	*env
	state, want int
	cancel      context.CancelCauseFunc
	fails       bool // a read that sees too little fails
	blocks      bool // a read that sees too little blocks until its context has ended

	seen  int  // what the last read saw
	ended bool // AwaitRead has returned
	value int
	err   error
}

func (r *reader) await(ctx context.Context) {
	r.value, r.err = signals.AwaitRead(ctx, r.p, timeout, func(within context.Context) (int, bool, error) {
		sched.Yield()
		v := r.state
		r.seen = v
		sched.Yield()                                // a change at this point must cause another read
		if r.blocks && v < r.want && within != ctx { // the last read, after the timeout, has the caller's
			sched.Receive(within.Done())
			return v, false, nil
		}
		if r.fails && v < r.want {
			return -1, false, errRead
		}
		return v, v >= r.want, nil
	}, r.keys...)
	r.ended = true
}

// readVerb is what another goroutine does during AwaitRead. raises says that it raises the
// number.
type readVerb struct {
	name   string
	raises bool
	do     func(*reader)
}

// raise returns a verb that raises the number and then calls tell.
func raise(tell func(*reader)) func(*reader) {
	return func(r *reader) {
		sched.Yield()
		r.state++
		tell(r)
	}
}

var readVerbs = []readVerb{
	{"check", true, raise(func(r *reader) { r.p.CheckAndComplete(r.keys[0]) })},
	{"signal", true, raise(func(r *reader) { r.p.Signal(r.keys[0]) })},
	{"spurious", false, func(r *reader) { r.p.Signal(r.keys[0]) }},
	{"expire", false, func(r *reader) { r.p.AdvanceClock(timeout) }},
	{"ctx", false, func(r *reader) { sched.Yield(); r.cancel(errCause) }},
	{"cancelkey", false, func(r *reader) { r.p.CancelForKey(r.keys[0], errCause) }},
	{"close", false, func(r *reader) { _ = r.p.Close() }},
}

// atRest checks what must hold when all goroutines have ended. The explorer reports a goroutine
// that sleeps for ever as a deadlock.
func (r *reader) atRest() error {
	if !r.ended {
		r.fail("AwaitRead has not returned")
	}
	switch {
	case r.err == nil && r.value < r.want:
		r.fail("returned %d, wanted %d", r.value, r.want)
	case errors.Is(r.err, purgatory.ErrExpired) && r.clock.Now() < timeout:
		r.fail("expired early")
	case r.err != nil && !r.fails && r.value != r.seen:
		r.fail("returned %d with %v, the last read said %d", r.value, r.err, r.seen)
	case r.err != nil && r.fails && r.value != 0:
		r.fail("returned %d with %v, which no read has said that did not fail", r.value, r.err)
	}
	if err := r.p.Close(); err != nil {
		r.fail("close: %v", err)
	}
	r.p.AdvanceClock(0)
	r.empty()
	return errors.Join(r.failures...)
}

// exploreRead explores AwaitRead beside verbs, with reads that say no or that fail. If none of them ends the wait, AwaitRead must
// return the number to which they have raised it.
func exploreRead(t *testing.T, bound int, fails bool, verbs ...readVerb) {
	name := "read"
	if fails {
		name = "failing-read"
	}
	for _, v := range verbs {
		name += "+" + v.name
	}
	setup := func(spawn func(string, func())) func() error {
		r := &reader{env: newEnv(1, []bool{false}, false, 0), fails: fails}
		ends := false
		for _, v := range verbs {
			if v.raises {
				r.want++
			}
			ends = ends || !v.raises && v.name != "spurious"
		}
		if r.want == 0 {
			r.want = 1 // is not reached
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		r.cancel = cancel
		spawn("0:read", func() { r.await(ctx) })
		for i, v := range verbs {
			spawn(fmt.Sprintf("%d:%s", i+1, v.name), func() { v.do(r) })
		}
		return func() error {
			if r.ended && r.err != nil && !ends {
				r.fail("ended by %v, and no verb ends the wait", r.err)
			}
			return r.atRest()
		}
	}
	exploreOne(t, name, bound, setup)
}

// The end of a wait ends the context of its read, also if it comes when the read is about to begin.
func TestAReadEndsWithItsWait(t *testing.T) {
	for _, v := range readVerbs {
		if v.raises || v.name == "spurious" {
			continue
		}
		exploreOne(t, "blocking-read+"+v.name, *pairBound, func(spawn func(string, func())) func() error {
			r := &reader{env: newEnv(1, []bool{false}, false, 0), blocks: true, want: 1}
			ctx, cancel := context.WithCancelCause(context.Background())
			r.cancel = cancel
			spawn("0:read", func() { r.await(ctx) })
			spawn("1:"+v.name, func() { v.do(r) })
			spawn("2:close", func() { // the other verb may have come too early
				sched.Yield()
				_ = r.p.Close()
			})
			return r.atRest
		})
	}
}

// TestReads explores AwaitRead beside one verb and beside two. A lost wake-up is a deadlock: the
// reader sleeps and no other goroutine can run. The verbs expire and cancelkey have no effect
// before AwaitRead has registered, so they are explored only beside verbs that end the wait
// in any case.
func TestReads(t *testing.T) {
	late := readVerb{"check-expire", true, raise(func(r *reader) { r.p.CheckAndComplete(r.keys[0]); r.p.AdvanceClock(timeout) })}
	for _, fails := range []bool{false, true} {
		exploreRead(t, *pairBound, fails, late) // one more read follows the timeout
		for i, a := range readVerbs {
			if a.raises || a.name == "ctx" || a.name == "close" {
				exploreRead(t, *pairBound, fails, a)
			}
			for _, b := range readVerbs[i:] {
				if a.raises && (b.raises || b.name == "spurious" || b.name == "ctx" || b.name == "close") || a.name == "ctx" || b.name == "close" {
					exploreRead(t, *tripleBound, fails, a, b)
				}
			}
		}
	}
}
