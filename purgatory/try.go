package purgatory

import (
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/watchers"
)

// maxInRow bounds how often a holder tries one operation in a row because state keeps
// changing. After that a worker tries it: otherwise an operation whose TryComplete
// signals its own key would keep its caller for ever. See docs/decisions.md#eight-tries-in-a-row.
const maxInRow = 8

// tries are the tries of a walk's batch, or of a registration.
type tries[K comparable] struct {
	observed     *observe.Callbacks[K] // nil: they are not timed
	made, wasted int
	panics       []func() // what reports them, and those of the callbacks
}

// timed is [machine.Machine.Try] with [WithSlowCallback].
func (t *tries[K]) timed(m *machine.Machine) (met bool) {
	key, _ := watchers.FirstKey[K](m)
	t.observed.Run(m, "TryComplete", key, func() { met = m.Try() })
	return met
}

// ask releases m, which the caller holds, or tries it whenever others have asked for that meanwhile; with
// again, it begins with a try. It returns how the caller has to end m. If that is Pending, m is released.
// met is what the last try has said. A panic goes to the caller, whose deferred function recovers it: see
// docs/decisions.md#a-walk-goes-on-after-a-panic.
func (p *DelayedOperationPurgatory[K]) ask(m *machine.Machine, again bool, t *tries[K]) (end machine.Outcome, met bool) {
	for n := 0; ; {
		if again {
			t.made++
			if t.observed == nil {
				met = m.Try()
			} else {
				met = t.timed(m)
			}
			if met {
				return machine.Satisfied, true
			}
			t.wasted++
			if n++; n == maxInRow {
				return p.release(m), false
			}
		}
		if end, again = m.Release(true); !again {
			return end, false
		}
	}
}

// release releases m, which the caller holds and will not try again: if others have asked for a
// try, a worker makes it. It returns how the caller has to end m; Pending means that m is released.
func (p *DelayedOperationPurgatory[K]) release(m *machine.Machine) (end machine.Outcome) {
	key, hash := watchers.FirstKey[K](m) // while it is held: afterwards another goroutine may end it
	end, again := m.Release(false)
	if again {
		p.signal(key, hash, EveryPosition, false)
	}
	return end
}
