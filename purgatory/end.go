package purgatory

import (
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// ForceComplete ends op as forced and reports whether this call has ended it. Use it to
// answer early with what there is, and Cancel for a failure. The callbacks run on this
// goroutine. ForceComplete does not block.
//
// It returns false if op has ended, was not accepted, or is an operation of another
// purgatory. It also returns false if another goroutine is trying op at this moment: that
// goroutine then ends op as forced, unless its try returns true or another method has
// asked it before to end op in another way.
func (p *DelayedOperationPurgatory[K]) ForceComplete(op operation.Operation) bool {
	return p.endNow(op, machine.Forced, nil)
}

// Cancel ends op as cancelled with cause, which [operation.DelayedOperation.Cause] then
// returns, and reports whether this call has ended it. The callbacks run on this
// goroutine. Cancel does not block. It returns false where
// [DelayedOperationPurgatory.ForceComplete] does.
func (p *DelayedOperationPurgatory[K]) Cancel(op operation.Operation, cause error) bool {
	return p.endNow(op, machine.Cancelled, &cause)
}

func (p *DelayedOperationPurgatory[K]) endNow(op operation.Operation, o machine.Outcome, cause *error) bool {
	m := machine.Find(op)
	if m == nil || !p.claim(m, o, cause) {
		return false
	}
	m.End(o, cause)
	return true
}

// claim makes the caller the holder of m, to end it with o. If m has another holder, claim
// leaves o to that holder as a wish.
func (p *DelayedOperationPurgatory[K]) claim(m *machine.Machine, o machine.Outcome, cause *error) (held bool) {
	if m.Hold(p.id) {
		return true
	}
	if o != machine.Cancelled {
		held, _ = m.Claim(o, p.id)
		return held
	}
	// The holder looks for the cause under the same lock, so it finds the cause that
	// belongs to the wish.
	p.wishes.Lock()
	defer p.wishes.Unlock()
	held, wished := m.Claim(o, p.id)
	if wished {
		p.wishes.causes[m] = cause
	}
	return held
}

// wishedCause returns the cause that was left with the wish to cancel m.
func (p *DelayedOperationPurgatory[K]) wishedCause(m *machine.Machine) *error {
	p.wishes.Lock()
	defer p.wishes.Unlock()
	return p.wishes.causes[m]
}

// forgetWish drops the cause of a wish to cancel m, which has ended.
func (p *DelayedOperationPurgatory[K]) forgetWish(m *machine.Machine) {
	p.wishes.Lock()
	delete(p.wishes.causes, m)
	p.wishes.Unlock()
}

// end ends operations that the caller holds. It does not run for an operation whose
// condition is met before it waits: registration.pass ends that one. s is the shard of the
// key that was checked, or of the first key.
//
//  1. The operations leave their lists.
//  2. Their outcomes become final. cause is the cause of those that are cancelled. If it
//     is nil, wishes holds the cause of each.
//  3. The caller takes their entries out of the timer, by leaveTimer or CancelAll. This
//     comes after 2: if an entry's task runs at this moment, it finds that the operation
//     has ended.
//  4. The caller has the callbacks run.
//
// end leaves 3 to the caller because CancelAll is a method of an interface, so its slice
// escapes to the heap: that would cost two allocations for an operation that ends alone.
func (p *DelayedOperationPurgatory[K]) end(s *watchers.Shard[K], batch *watchers.Ending, cause *error) {
	s.Leave(batch)
	for i, m := range batch.Machines {
		o, of := batch.Outcomes[i], cause
		if o == machine.Cancelled && of == nil {
			of = p.wishedCause(m)
		}
		if m.Settle(o, of) == machine.Cancelled {
			p.forgetWish(m)
		}
	}
	p.release(len(batch.Machines))
	if p.closed.Load() {
		p.purge() // Close may have purged for the last time before Leave left a watch to the purge
	}
}

// leaveTimer takes an operation that has ended out of the timer.
func (p *DelayedOperationPurgatory[K]) leaveTimer(m *machine.Machine, o machine.Outcome) {
	if o != machine.Expired { // the entry of an expired operation has left the timer
		p.timer.Cancel(entryOf(m))
	}
}

// endOne ends m, which the caller holds, and runs its callbacks. s is the shard of its
// first key. The timer calls endOne, through Machine.End, for an operation that expires.
func (p *DelayedOperationPurgatory[K]) endOne(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, cause *error) {
	machines, outcomes := [1]*machine.Machine{m}, [1]machine.Outcome{o}
	batch := &watchers.Ending{Machines: machines[:], Outcomes: outcomes[:]}
	key := &logKey[K]{key: watchers.FirstKey[K](m)}
	p.end(s, batch, cause)
	p.leaveTimer(m, o)
	p.answerOne(s.Gate(), batch, key)
}
