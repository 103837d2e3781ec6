package purgatory

import (
	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// maxInRow bounds how often a holder tries one operation in a row because state keeps
// changing. After that a worker tries it: otherwise an operation whose TryComplete
// signals its own key would keep its caller for ever.
const maxInRow = 8

// try tries m, if no other goroutine holds it; else the holder tries it again.
func (w *walk[K]) try(m *machine.Machine) {
	if !m.Acquire() {
		return
	}
	w.held.Machine, w.held.Op, w.trying, w.inRow = m, m.Operation(), true, 0
	w.tries++
	if w.p.cfg.slow > 0 {
		w.tried(w.timedTry())
	} else if end, again := w.held.Try(true); end != machine.Satisfied {
		w.tried(end, again)
	} else {
		w.trying = false
		w.add(end)
	}
}

// timedTry is Try of the operation that the walk holds, with [WithSlowCallback].
func (w *walk[K]) timedTry() (end machine.Outcome, again bool) {
	key, _ := watchers.FirstKey[K](w.held.Machine)
	defer w.p.callbacks.end(w.p.callbacks.begin(w.held.Machine, "TryComplete", key))
	running(w.held.Machine, func() { end, again = w.held.Try(false) })
	return end, again
}

// tried goes on after the first try of an operation, which has returned what [machine.Hold.Try]
// does, and after one that has not returned. A walk in order ends with the first no; a panic is
// none, because an operation that panics each time must not stop the others.
func (w *walk[K]) tried(end machine.Outcome, again bool) {
	if end == machine.Pending {
		w.wasted++
	}
	if again {
		end = w.p.tryAgain(&w.held, &w.inRow, w.retry)
	}
	w.trying = false
	if end != machine.Pending {
		w.add(end)
	} else if w.inOrder && !w.panicked {
		w.stop()
		w.turns.stopped = true
	}
}

// retry tries the operation that the walk holds once more.
func (w *walk[K]) retry() (end machine.Outcome) {
	w.panicked = false
	w.tries++
	if w.p.cfg.slow > 0 {
		end, _ = w.timedTry()
	} else {
		end, _ = w.held.Try(false)
	}
	if end == machine.Pending {
		w.wasted++
	}
	return end
}

// add adds the operation that the walk holds to those that end with this batch.
func (w *walk[K]) add(end machine.Outcome) {
	w.ending.add(w.held.Machine, end)
	if w.held.Machine == w.own {
		w.ownEnded = true
	}
}

// tryAgain goes on after a try that returned false, or ended otherwise: it releases the operation,
// or calls retry while others ask for that. inRow counts its tries.
// tryAgain returns how the holder has to end the operation; Pending means that it is released.
func (p *DelayedOperationPurgatory[K]) tryAgain(h *machine.Hold, inRow *int, retry func() machine.Outcome) (end machine.Outcome) {
	for *inRow++; *inRow < maxInRow; *inRow++ {
		end, again := h.Release(true)
		if !again {
			return end
		}
		if end = retry(); end == machine.Satisfied {
			return end
		}
	}
	return p.leave(h.Machine)
}

// claimFor claims m for the outcome of the walk, or leaves a wish to m's holder.
func (w *walk[K]) claimFor(m *machine.Machine) {
	if w.match != nil && !w.matches(m) || !w.p.claim(m, w.claim, w.cause) {
		return
	}
	if w.ending.add(m, w.claim); w.took != nil {
		w.took(m.Operation().(operation.Operation))
	}
}

// matches calls match. A panic counts as false.
func (w *walk[K]) matches(m *machine.Machine) bool {
	defer func() {
		if v := recover(); v != nil {
			// The report has the type of m, not what its String method returns: other
			// goroutines may be running m's methods.
			guard.Report(v, w.p.blame(m, kindOf(m.Operation()), "match", w.key))
		}
	}()
	return w.match(m.Operation().(operation.Operation))
}

// interrupted is called when a TryComplete has panicked with v, or has called runtime.Goexit: v is
// nil then.
func (w *walk[K]) interrupted(v any) {
	if v != nil {
		key, _ := watchers.FirstKey[K](w.held.Machine)
		w.p.reportPanic(v, w.held.Machine, "TryComplete", key)
	}
}

// letGo releases m, which the caller holds, for good: if others have asked for a try, a worker
// makes it; if they have asked for an end, letGo ends m.
func (p *DelayedOperationPurgatory[K]) letGo(m *machine.Machine) {
	_, hash := watchers.FirstKey[K](m)
	if end := p.leave(m); end != machine.Pending {
		p.endOne(p.watchers.Shard(hash), m, end, nil, false)
	}
}

// leave releases m, which the caller holds and will not try again: if others have asked for a
// try, a worker makes it. leave returns how the caller has to end m; Pending means that it is
// released.
func (p *DelayedOperationPurgatory[K]) leave(m *machine.Machine) (end machine.Outcome) {
	key, hash := watchers.FirstKey[K](m) // while it is held: afterwards another goroutine may end it
	end, again := m.Release(false)
	if again {
		p.signal(key, hash, EveryPosition, false)
	}
	return end
}
