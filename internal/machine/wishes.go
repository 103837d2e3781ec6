package machine

import "github.com/delayedop/purgatory/internal/sched"

// Wishes has the causes of cancellations that were set as a wish, for the operation's holder:
// the state word has room for the wish, but not for its cause. A purgatory has one Wishes for
// its operations. It is safe for concurrent use. See docs/decisions.md#the-cause-of-a-wish-is-in-a-map.
//
// The holder finds the cause that belongs to the wish: a cause is added under the lock under
// which the wish is set, and the holder takes the lock after it has seen the wish.
type Wishes struct {
	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		causes map[*Machine]*error
	}
}

// Claim makes the caller the holder of m, to end it with o. If m has another holder, Claim
// sets o as a wish; an earlier wish takes precedence. owner is the identity
// of the purgatory; an operation of another one stays as it is.
func (w *Wishes) Claim(m *Machine, o Outcome, owner uint32, cause *error) (held bool) {
	if m.Hold(owner) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	held, wished := m.claim(o, owner)
	if wished && o == Cancelled {
		if w.mu.causes == nil {
			w.mu.causes = make(map[*Machine]*error)
		}
		w.mu.causes[m] = cause
	}
	return held
}

// Settle ends machines, which the caller holds, for good, each with its outcome. cause is the cause
// of those that are cancelled; nil means the one that was set with the wish.
func (w *Wishes) Settle(machines []*Machine, outcomes []Outcome, cause *error) {
	for i, m := range machines {
		o, why := outcomes[i], cause
		if o == Cancelled && why == nil {
			w.mu.Lock()
			why = w.mu.causes[m]
			w.mu.Unlock()
		}
		if m.settle(o, why) == Cancelled {
			w.mu.Lock()
			delete(w.mu.causes, m)
			w.mu.Unlock()
		}
	}
}

// GiveBack gives up a held operation that was refused; see [Machine.giveBack]. The operation
// may be submitted again at once, and the cause of a cancellation after that must stay: so the
// lock is held over both steps.
func (w *Wishes) GiveBack(m *Machine, spent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.giveBack(spent)
	delete(w.mu.causes, m)
}

// Len returns the number of causes, for tests.
func (w *Wishes) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.causes)
}
