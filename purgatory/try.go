package purgatory

import (
	"runtime/debug"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// answer is what a try of an operation has said.
type answer uint8

const (
	none answer = iota // it was not tried: nobody waits for it any more, or another goroutine holds it
	no                 // its condition is not met
	yes                // its condition is met: whatever TryComplete has taken is the operation's
)

// maxInRow bounds how often a holder tries one operation in a row because state keeps
// changing. After that a worker tries it: otherwise an operation whose TryComplete
// signals its own key would keep its caller for ever.
const maxInRow = 8

// asking says how ask asks.
type asking uint8

const (
	tryFirst asking = 1 << iota // it begins with a try
	noteStop                    // it notes that a walk in order stops at an operation that says no
	timed                       // it times the tries, with WithSlowCallback; m is watched
)

// try calls TryComplete of m, which the caller holds. The caller recovers its panic.
func (p *DelayedOperationPurgatory[K]) try(m *machine.Machine, how asking) answer {
	if hasLeft(m) {
		p.passedOver.Add(1)
		return none
	}
	if how&timed != 0 && p.cfg.slow > 0 {
		return p.timedTry(m)
	}
	if m.Try() {
		return yes
	}
	return no
}

// timedTry is try with [WithSlowCallback].
func (p *DelayedOperationPurgatory[K]) timedTry(m *machine.Machine) (a answer) {
	key, _ := watchers.FirstKey[K](m)
	p.timed(m, "TryComplete", key, func() {
		if a = no; m.Try() {
			a = yes
		}
	})
	return a
}

// hasLeft reports whether m is a wait whose context has ended: nobody waits for it any more.
func hasLeft(m *machine.Machine) bool {
	w, ok := m.Operation().(*waiting)
	return ok && closed(w.done)
}

// ask releases m, which the caller holds, or tries it whenever others have asked for that meanwhile. It
// returns how the caller has to end m. If that is Pending, m is released. last is what a try has said last,
// and tries is how many there were.
func (p *DelayedOperationPurgatory[K]) ask(m *machine.Machine, how asking) (end machine.Outcome, last answer, tries int) {
	for again := how&tryFirst != 0; ; {
		if again {
			last = p.try(m, how)
			if tries++; last == yes {
				return machine.Satisfied, yes, tries
			}
			if how&noteStop != 0 && last == no {
				m.SetStopped()
			}
			if tries == maxInRow {
				return p.leave(m), last, tries
			}
		}
		if end, again = m.Release(true); !again {
			return end, last, tries
		}
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

// letGo is leave that ends m if others have asked for that.
func (p *DelayedOperationPurgatory[K]) letGo(m *machine.Machine) {
	s := watchers.ShardOf[K](m)
	if end := p.leave(m); end != machine.Pending {
		p.endOne(s, m, end, nil, false)
	}
}

// recoveries are panics that were recovered. Their handler is user code, and may block: so it is called
// when the operations and the turn of a line are free.
type recoveries []func()

// recovered returns the call of the handler for v, the value of a panic in a method of m. The deferred function
// that has recovered v calls it: the stack still has the panic there. The operation is named by its String method; the caller holds m,
// or has just run one of its callbacks.
func (p *DelayedOperationPurgatory[K]) recovered(v any, m *machine.Machine, method string, key K) func() {
	stack := debug.Stack()
	name := nameOf(m, func(any, []byte) {}) // one panic is reported, not that of String, too
	return func() { guard.Report(v, stack, p.blame(m, name, method, key)) }
}

// deliver calls the handlers. If one of them calls runtime.Goexit, another goroutine calls the others.
func (r *recoveries) deliver() {
	if len(*r) == 0 {
		return
	}
	defer func() {
		if rest := *r; len(rest) > 0 {
			*r = nil
			sched.Go(func() { rest.deliver() })
		}
	}()
	for len(*r) > 0 {
		next := (*r)[0]
		*r = (*r)[1:]
		next()
	}
	*r = nil
}
