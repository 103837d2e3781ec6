package purgatory

import (
	"errors"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// registration is one call of TryCompleteElseWatch. The caller is the operation's holder
// from the first try until the operation is in the timer and in every list. No other
// goroutine can try or end it halfway: they leave marks, which the holder sees at the
// end.
//
// No wake-up is lost:
//
//  1. A goroutine that changes state does so before CheckAndComplete looks for
//     watchers.
//  2. If the operation was linked under the key by then, CheckAndComplete finds it,
//     and either tries it or leaves a mark.
//  3. If not, the operation is linked later, and the second try comes later still:
//     it sees the change.
//
// Closing is not lost either: a shard that is closed refuses the operation, and Close
// finds every operation that a shard has accepted before. The shard of the first key
// decides whether the operation is accepted.
type registration[K comparable] struct {
	hold    hold[K]
	timeout time.Duration
	tried   bool // the caller has made the first try
	step    step

	completed bool
	err       error
}

// step is what a registration does next. It is set before user code runs, to what comes
// after a TryComplete that returns false: a panic counts as false.
type step uint8

const (
	begin     step = iota // the caller is not the holder yet
	watch                 // the first try has begun; the operation is in no list
	releasing             // the operation is watched, and the last try has begun
	finished              // the caller has let go of the operation, or ends it
)

// run takes the registration from its step to the end.
func (r *registration[K]) run(waits []watchers.Wait[K]) {
	defer func() {
		if r.step != finished {
			r.survive(recover(), waits)
		}
	}()
	if r.step == begin {
		p := r.hold.p
		if !r.hold.Begin(len(waits), p.id) {
			r.refuse(ErrUsed, "%T was submitted before%s", r.hold.Op, p.elsewhere(r.hold.Machine))
			return
		}
		if !p.reserve() {
			p.giveUp(r.hold.Machine, false)
			r.refuse(ErrFull, "%d operations are pending", p.cfg.maxPending)
			return
		}
		r.step = watch
		if p.looks(r.hold.Machine) && r.timeout > 0 && p.tooDeep() {
			r.leave(waits)
			return
		}
		if !r.tried {
			if end, _ := r.hold.Try(false); end == machine.Satisfied {
				r.pass(waits)
				return
			}
		}
	}
	if r.step == watch {
		if !r.watch(waits) {
			return
		}
		if r.timeout > 0 {
			if end, again := r.hold.Try(true); !again {
				r.end(end, waits)
				return
			}
		}
	}
	r.end(r.hold.retry(), waits)
}

// first returns the shard of the first key.
func (r *registration[K]) first(waits []watchers.Wait[K]) *watchers.Shard[K] {
	return r.hold.p.watchers.Shard(waits[0].Hash)
}

// survive takes the registration to its end when user code has panicked with v, or has called
// runtime.Goexit: v is nil then. It does not return to run's caller before that, because a
// panic may have come from a function that was deferred by code that called runtime.Goexit:
// then only deferred functions run. After a Goexit the operation waits like any other, and a
// worker makes the further try.
func (r *registration[K]) survive(v any, waits []watchers.Wait[K]) {
	if r.hold.Machine == nil {
		r.refuse(ErrNilOperation, "%T", r.hold.Op)
		return
	}
	defer func() {
		if r.step != finished { // after a Goexit, also one of the panic handler
			r.leave(waits)
		}
	}()
	if v == nil {
		return
	}
	r.hold.p.reportPanic(v, r.hold.Machine, "TryComplete", waits[0].Key)
	r.run(waits)
}

// leave takes the registration to its end without another try on this goroutine. If the
// operation was not watched yet, a worker makes the try that follows.
func (r *registration[K]) leave(waits []watchers.Wait[K]) {
	if r.step == watch {
		if !r.watch(waits) {
			return
		}
		if r.timeout > 0 {
			r.hold.Acquire() // finds the operation busy, and sets the mark "again"
		}
	}
	r.end(r.hold.leave(), waits)
}

// pass ends an operation whose condition the first try has met. If the purgatory has
// closed meanwhile, pass rejects it: Shutdown may have returned, after which no callback
// runs.
func (r *registration[K]) pass(waits []watchers.Wait[K]) {
	p, m := r.hold.p, r.hold.Machine
	if !r.first(waits).Pass(machine.Satisfied) {
		r.reject(false, ErrClosed, "%s", kindOf(r.hold.Op))
		return
	}
	r.step, r.completed = finished, true
	if m.Settle(machine.Satisfied, nil) == machine.Cancelled {
		p.forgetWish(m)
	}
	p.release(1)
	machines, outcomes := [1]*machine.Machine{m}, [1]machine.Outcome{machine.Satisfied}
	p.answerOne(r.first(waits).Gate(), &watchers.Ending{Machines: machines[:], Outcomes: outcomes[:]}, &logKey[K]{key: waits[0].Key})
}

// watch schedules the operation's timeout and links the operation under all its keys. It
// reports whether the caller still holds the operation.
//
// The timer comes first, because it can refuse, and an operation that is in a list is
// accepted. If the timeout passes before the registration is over, the timer leaves a
// wish.
func (r *registration[K]) watch(waits []watchers.Wait[K]) (held bool) {
	p, m := r.hold.p, r.hold.Machine
	now := p.timer.Now()
	if err := p.timer.AddAt(entryOf(m), now, timer.Deadline(now, r.timeout)); err != nil {
		kind := ErrFull
		if errors.Is(err, timer.ErrStopped) {
			kind = ErrClosed
		}
		r.reject(false, kind, "%v", err)
		return false
	}
	m.SetStart(now)
	for i := range waits {
		w := &waits[i]
		if p.watchers.Shard(w.Hash).Watch(m, i, w) {
			continue
		}
		if i == 0 {
			// If Cancel fails, a worker of the timer has claimed the entry and may
			// still use it.
			spent := !p.timer.Cancel(entryOf(m))
			r.reject(spent, ErrClosed, "%s", kindOf(r.hold.Op))
		} else {
			r.end(machine.Closed, waits)
		}
		return false
	}
	r.step = releasing
	return true
}

// end finishes the registration with the result of a try: it ends the operation
// with o, or does nothing if o is Pending.
func (r *registration[K]) end(o machine.Outcome, waits []watchers.Wait[K]) {
	switch r.step = finished; o {
	case machine.Pending:
	case machine.Expired:
		r.expire(waits)
	default:
		r.completed = true
		r.hold.p.endOne(r.first(waits), r.hold.Machine, o, nil)
	}
}

// expire ends an operation whose timeout has passed during the registration. It lets go
// of the operation and schedules it once more, as due: callbacks of an expired operation
// never run on the goroutine that registers.
func (r *registration[K]) expire(waits []watchers.Wait[K]) {
	p, m, first := r.hold.p, r.hold.Machine, r.first(waits)
	m.ClearWish()
	deadline := m.Entry().Deadline() // the worker that left the wish has let go of the entry
	// leave hands a further try to a signal worker, which may end the operation before
	// the timer does.
	if end := r.hold.leave(); end != machine.Pending {
		r.completed = true
		p.endOne(first, m, end, nil)
		return
	}
	now := p.timer.Now()
	sched.Yield()
	refused := p.timer.AddAt(entryOf(m), now, deadline) != nil
	switch {
	case refused: // no timeout will pass
		if held, _ := m.Claim(machine.Expired, p.id); held {
			batch := &watchers.Ending{Machines: []*machine.Machine{m}, Outcomes: []machine.Outcome{machine.Expired}}
			key := &logKey[K]{key: watchers.FirstKey[K](m)}
			p.end(first, batch, nil)
			p.hand(batch, key)
		}
	case m.Outcome() != machine.Pending:
		// Another goroutine ended it before AddAt, and found no entry to cancel.
		p.timer.Cancel(entryOf(m))
	case p.closed.Load() && p.claim(m, machine.Closed, nil):
		// Close may have come while m had the wish to expire, and then left no wish.
		r.completed = true
		p.endOne(first, m, machine.Closed, nil)
	}
}

// reject undoes the registration of an operation that was in no list. spent reports that
// a worker of the timer may still use the operation's entry.
func (r *registration[K]) reject(spent bool, kind error, format string, args ...any) {
	r.hold.p.giveUp(r.hold.Machine, spent)
	r.hold.p.release(1)
	r.refuse(kind, format, args...)
}

// refuse ends the registration of an operation that is not accepted.
func (r *registration[K]) refuse(kind error, format string, args ...any) {
	r.step, r.err = finished, r.hold.p.refuse(kind, format, args...)
}

// giveUp makes an operation that was not accepted new again, unless it is spent, and
// drops the cause of a wish to cancel it. It does both under the lock of the causes: the
// operation may be submitted again at once, and the cause of a cancellation after that
// must stay.
func (p *DelayedOperationPurgatory[K]) giveUp(m *machine.Machine, spent bool) {
	p.wishes.Lock()
	defer p.wishes.Unlock()
	m.Reject(spent)
	delete(p.wishes.causes, m)
}
