package purgatory

import (
	"runtime/trace"
	"slices"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// ForceComplete ends op, which must be an operation of this purgatory, as forced and
// reports whether it did. It does not: if op has ended, or was not accepted; or if
// another goroutine is trying it at this moment, which then ends it as forced unless
// the try says yes. The callbacks run on this goroutine. It does not block.
func (p *DelayedOperationPurgatory[K]) ForceComplete(op operation.Operation) bool {
	return p.endNow(op, operation.Forced, nil)
}

// Cancel ends op, which must be an operation of this purgatory, as cancelled with
// cause, which op.Cause then returns, and reports whether it did; see ForceComplete for
// when it does not.
func (p *DelayedOperationPurgatory[K]) Cancel(op operation.Operation, cause error) bool {
	return p.endNow(op, operation.Cancelled, &cause)
}

func (p *DelayedOperationPurgatory[K]) endNow(op operation.Operation, o operation.Outcome, cause *error) bool {
	if isNil(op) {
		return false
	}
	m := operation.Of(op)
	if !p.claim(m, o, cause) {
		return false
	}
	m.End(o, cause)
	return true
}

// claim makes the caller the holder of m, to end it with o; or leaves that as a wish
// to the holder that it has.
func (p *DelayedOperationPurgatory[K]) claim(m *operation.Machine, o operation.Outcome, cause *error) (held bool) {
	if m.Hold() {
		return true
	}
	if o != operation.Cancelled {
		return m.Claim(o)
	}
	// The cause is left before anybody can look for it: they look under the lock.
	p.wishes.Lock()
	defer p.wishes.Unlock()
	held, wished := m.ClaimOrWish(o)
	if wished {
		p.wishes.causes[m] = cause
	}
	return held
}

// wishedCause returns the cause that came with the wish to cancel m.
func (p *DelayedOperationPurgatory[K]) wishedCause(m *operation.Machine) *error {
	p.wishes.Lock()
	defer p.wishes.Unlock()
	return p.wishes.causes[m]
}

// forgetWish drops what a wish has left behind, once m has ended.
func (p *DelayedOperationPurgatory[K]) forgetWish(m *operation.Machine, wish operation.Outcome) {
	if wish != operation.Cancelled {
		return
	}
	p.wishes.Lock()
	delete(p.wishes.causes, m)
	p.wishes.Unlock()
}

// end ends m, which the caller holds; s is the shard of its first key. It is where
// the timer arrives with what has expired.
func (p *DelayedOperationPurgatory[K]) end(s *watchers.Shard[K], m *operation.Machine, o operation.Outcome, cause *error) {
	machines, outcomes := [1]*operation.Machine{m}, [1]operation.Outcome{o}
	batch := watchers.Ending{Machines: machines[:], Outcomes: outcomes[:]}
	s.Prefetch(m)
	run := s.Leave(batch)
	p.settle(batch, cause)
	if o != operation.Expired { // else the timer has let go of it, and left that outcome
		p.timer.Cancel(m.Entry())
	}
	p.answer(s, batch, run)
}

// settle makes the outcomes of a batch that has left its lists final. cause is that of
// the cancelled ones; nil if they were left with a wish, and the cause with it.
//
// It comes before their entries leave the timer: a registration that schedules an
// operation after it has let go (expireOnWorker) sees then that it has ended, or has its
// entry cancelled.
func (p *DelayedOperationPurgatory[K]) settle(batch watchers.Ending, cause *error) {
	for i, m := range batch.Machines {
		o, of := batch.Outcomes[i], cause
		if o == operation.Cancelled && of == nil {
			of = p.wishedCause(m)
		}
		if wish := m.Settle(o, of); wish != operation.Pending {
			p.forgetWish(m, wish)
		}
	}
	p.release(len(batch.Machines))
}

// answer runs the callbacks of a batch that has ended, or queues them behind those who
// do; run is what Leave said.
func (p *DelayedOperationPurgatory[K]) answer(s *watchers.Shard[K], batch watchers.Ending, run bool) {
	if !run && !s.Queue(batch) {
		return
	}
	defer p.exit(s) // also when a callback ends the goroutine
	if trace.IsEnabled() {
		p.traced(regionCallbacks, func() { p.callBack(batch) })
		return
	}
	p.callBack(batch)
}

// exit runs the callbacks that were queued behind this goroutine's, until there are
// none.
func (p *DelayedOperationPurgatory[K]) exit(s *watchers.Shard[K]) {
	for m := s.Exit(); m != nil; m = s.Exit() {
		p.runQueued(s, m)
	}
}

func (p *DelayedOperationPurgatory[K]) runQueued(s *watchers.Shard[K], m *operation.Machine) {
	normal := false
	defer func() {
		if !normal { // runtime.Goexit: this is the last chance for the others
			p.exit(s)
		}
	}()
	machines, outcomes := [1]*operation.Machine{m}, [1]operation.Outcome{m.Outcome()}
	p.callBack(watchers.Ending{Machines: machines[:], Outcomes: outcomes[:]})
	normal = true
}

// callBack runs the callbacks of operations that have ended, all of them, whatever
// they do: first every OnComplete, then OnExpiration of those that have expired.
func (p *DelayedOperationPurgatory[K]) callBack(batch watchers.Ending) {
	n := len(batch.Machines)
	calls := n
	if slices.Contains(batch.Outcomes, operation.Expired) {
		calls = 2 * n
	}
	guard.Each(calls, func(i int) {
		if i < n {
			p.onComplete(batch.Machines[i])
		} else if batch.Outcomes[i-n] == operation.Expired {
			p.onExpiration(batch.Machines[i-n])
		}
	}, p.panicked)
}
