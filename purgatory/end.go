package purgatory

import (
	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// ForceComplete ends op as forced and reports whether it did. It does not: if op
// has ended, or was not accepted; or if another goroutine is trying it at this
// moment, which then ends it as forced unless the try says yes. The callbacks run
// on this goroutine. It does not block.
func (p *DelayedOperationPurgatory[K]) ForceComplete(op operation.Operation) bool {
	return p.endNow(op, operation.Forced, nil)
}

// Cancel ends op as cancelled with cause, which op.Cause then returns, and reports
// whether it did; see ForceComplete for when it does not.
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

// wishedCause returns the cause that came with the wish, if it was a cancellation.
func (p *DelayedOperationPurgatory[K]) wishedCause(m *operation.Machine, wish operation.Outcome) *error {
	if wish != operation.Cancelled {
		return nil
	}
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
	batch := [1]watchers.Leaving{{Operation: m.Operation(), Machine: m, Outcome: o, Cause: cause}}
	run := s.Leave(batch[:])
	p.timer.Cancel(m.Entry())
	p.settle(s, batch[:], run)
}

// settle makes the outcomes of a batch that has left lists and timer final, and runs
// the callbacks, or queues them behind those who do.
func (p *DelayedOperationPurgatory[K]) settle(s *watchers.Shard[K], batch []watchers.Leaving, run bool) {
	for i := range batch {
		l := &batch[i]
		if wish := l.Machine.Settle(l.Outcome, l.Cause); wish != operation.Pending {
			p.forgetWish(l.Machine, wish)
		}
	}
	p.release(len(batch))
	if !run && !s.Queue(batch) {
		return
	}
	defer p.exit(s) // also when a callback ends the goroutine
	p.callBack(batch, 0)
}

// exit runs the callbacks that were queued behind this goroutine's, until there are
// none.
func (p *DelayedOperationPurgatory[K]) exit(s *watchers.Shard[K]) {
	for next, more := s.Exit(); more; next, more = s.Exit() {
		p.runQueued(s, next)
	}
}

func (p *DelayedOperationPurgatory[K]) runQueued(s *watchers.Shard[K], next watchers.Leaving) {
	normal := false
	defer func() {
		if !normal { // runtime.Goexit: this is the last chance for the others
			p.exit(s)
		}
	}()
	batch := [1]watchers.Leaving{next}
	p.callBack(batch[:], 0)
	normal = true
}

// callBack runs the callbacks of a batch, from the i-th on, whatever they do:
// OnComplete of batch[j] is the 2j-th, its OnExpiration the one after it.
func (p *DelayedOperationPurgatory[K]) callBack(batch []watchers.Leaving, i int) {
	for i < 2*len(batch) {
		i = p.callBackFrom(batch, i)
	}
}

func (p *DelayedOperationPurgatory[K]) callBackFrom(batch []watchers.Leaving, i int) (next int) {
	normal := false
	defer func() {
		if normal {
			return
		}
		next = i + 1
		if v := recover(); v != nil {
			guard.Report(v, p.panicked)
			return
		}
		p.callBack(batch, next) // runtime.Goexit: this is the last chance for the others
	}()
	for ; i < 2*len(batch); i++ {
		l := &batch[i>>1]
		if i&1 == 0 {
			l.Operation.OnComplete()
		} else if l.Outcome == operation.Expired {
			l.Operation.OnExpiration()
		}
	}
	normal = true
	return i
}
