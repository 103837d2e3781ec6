package purgatory

import (
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// answer is what a try of an operation has said.
type answer uint8

const (
	none answer = iota // its TryComplete has panicked, or it was not tried
	no                 // its condition is not met
	yes                // its condition is met: whatever TryComplete has taken is the operation's
)

// maxInRow bounds how often a holder tries one operation in a row because state keeps
// changing. After that a worker tries it: otherwise an operation whose TryComplete
// signals its own key would keep its caller for ever. See docs/decisions.md#eight-tries-in-a-row.
const maxInRow = 8

// tries are the tries of a walk, or of a registration.
type tries[K comparable] struct {
	p            *DelayedOperationPurgatory[K]
	registration bool
	key          K // of a registration: the first of its operation
	made, wasted int
	panics       []func() // their reports
}

// try calls TryComplete of m, which the caller holds. The report of a panic waits until the caller holds
// neither an operation nor the turn of a line: the handler is user code, and may block. See
// docs/decisions.md#a-panic-is-recovered-where-it-happens.
func (t *tries[K]) try(m *machine.Machine) (a answer) {
	over := false
	defer func() {
		if !over { // it has panicked, or called runtime.Goexit
			if v := recover(); v != nil {
				t.panics = append(t.panics, t.p.records.Recovered(v, m, "TryComplete", t.keyOf(m)))
			}
		}
	}()
	var met bool
	if t.p.observed != nil && !t.registration {
		met = t.timed(m)
	} else {
		met = m.Try()
	}
	over = true
	t.made++
	if met {
		return yes
	}
	t.wasted++
	return no
}

// timed is [machine.Machine.Try] with [WithSlowCallback].
func (t *tries[K]) timed(m *machine.Machine) (met bool) {
	t.p.observed.Run(m, "TryComplete", t.keyOf(m), func() { met = m.Try() })
	return met
}

// keyOf returns the first key of m, which the caller holds.
func (t *tries[K]) keyOf(m *machine.Machine) K {
	if t.registration {
		return t.key
	}
	key, _ := watchers.FirstKey[K](m)
	return key
}

// ask releases m, which the caller holds, or tries it whenever others have asked for that meanwhile; with
// again, it begins with a try. It returns how the caller has to end m. If that is Pending, m is released.
// last is what the last try has said.
func (t *tries[K]) ask(m *machine.Machine, again bool) (end machine.Outcome, last answer) {
	for n := 0; ; {
		if again {
			if last = t.try(m); last == yes {
				return machine.Satisfied, yes
			}
			if n++; n == maxInRow {
				return t.p.leave(m), last
			}
		}
		if end, again = m.Release(true); !again {
			return end, last
		}
	}
}

// report reports the panics. If a handler calls runtime.Goexit, another goroutine reports the others.
func (t *tries[K]) report() {
	if len(t.panics) == 0 {
		return
	}
	reports := t.panics
	t.panics = nil
	reportAll(reports)
}

func reportAll(reports []func()) {
	over := false
	defer func() {
		if !over {
			sched.Go(func() { reportAll(reports) })
		}
	}()
	for len(reports) > 0 {
		next := reports[0]
		reports = reports[1:]
		next()
	}
	over = true
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
