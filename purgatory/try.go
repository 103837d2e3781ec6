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
	no     answer = iota // its condition is not met
	yes                  // its condition is met: whatever TryComplete has taken is the operation's
	silent               // none: TryComplete has panicked
	gone                 // none: TryComplete was not called, because nobody waits for it any more
)

// maxInRow bounds how often a holder tries one operation in a row because state keeps
// changing. After that a worker tries it: otherwise an operation whose TryComplete
// signals its own key would keep its caller for ever.
const maxInRow = 8

// recoveries are panics that were recovered while an operation was held, and perhaps the turn of a line.
// Their handler is user code, and may block: so it is called when both are free.
type recoveries []func()

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

// try calls TryComplete of m, which the caller holds. A panic counts as none. After a runtime.Goexit
// try does not return.
func (p *DelayedOperationPurgatory[K]) try(m *machine.Machine, key K, r *recoveries) (a answer) {
	if w, ok := m.Operation().(*waiting); ok && closed(w.done) {
		p.passedOver.Add(1)
		return gone
	}
	a = silent
	defer func() {
		if a == silent {
			p.noteRecovered(recover(), m, key, r)
		}
	}()
	if p.cfg.slow > 0 {
		defer p.callbacks.end(p.callbacks.begin(m, "TryComplete", key))
	}
	if m.Try() {
		a = yes
	} else {
		a = no
	}
	return a
}

// noteRecovered adds v, the value of a panic in the TryComplete of m, to r; nil means none. The deferred
// function that has recovered it calls noteRecovered: the stack still has the panic there.
func (p *DelayedOperationPurgatory[K]) noteRecovered(v any, m *machine.Machine, key K, r *recoveries) {
	if v == nil { // a runtime.Goexit
		return
	}
	stack := debug.Stack()
	name := nameOf(m, func(any, []byte) {}) // one panic is reported, not that of String, too
	*r = append(*r, func() { guard.Report(v, stack, p.blame(m, name, "TryComplete", key)) })
}

// ask releases m, which the caller holds, or tries it whenever others have asked for that meanwhile, and
// with first before that. It returns how the caller has to end m. If that is Pending, m is released. last is
// what a try has said last, and tries is how many there were. With inLine, m is released with the note that a
// walk in order stops at it.
func (p *DelayedOperationPurgatory[K]) ask(m *machine.Machine, key K, first, inLine bool, r *recoveries) (end machine.Outcome, last answer, tries int) {
	for n, again := 0, first; ; n++ {
		if again {
			last = p.try(m, key, r)
			if last != gone {
				tries++
			}
			if last == yes {
				return machine.Satisfied, yes, tries
			}
			if inLine && last == no {
				m.SetStopped()
			}
		}
		if n == maxInRow {
			return p.leave(m), last, tries
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
