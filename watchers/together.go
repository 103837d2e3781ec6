package watchers

import (
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// Together stands for the keys of one call, which may be checked by several goroutines. It
// holds the operations that these checks have tried, so that an operation that waits for
// several of the keys is tried once. It is safe for concurrent use.
//
// No signal is lost, although the check of a key skips an operation:
//
//  1. The operation was tried by the check of another key of the call, after the call.
//  2. If a later signal finds the key without a mark, it queues the key for another check.
//  3. If a later signal finds the mark, and no operation has been tried yet, every try
//     comes after that signal too.
//  4. If an operation has been tried, [Shard.Signal] takes the key out of the Together, so
//     that the check of the key skips no operation.
type Together struct {
	mu struct { // lock level 7
		sched.Mutex
		tried map[*machine.Machine]struct{}
	}
}

// First reports whether no check has tried m yet; the caller then tries it.
func (t *Together) First(m *machine.Machine) bool {
	if m.Keys() == 1 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, tried := t.mu.tried[m]; tried {
		return false
	}
	if t.mu.tried == nil {
		t.mu.tried = make(map[*machine.Machine]struct{})
	}
	t.mu.tried[m] = struct{}{}
	return true
}

// Forget drops machines, which the caller is about to end, so that a callback that blocks the
// check of another key does not keep them in memory.
func (t *Together) Forget(machines []*machine.Machine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range machines {
		delete(t.mu.tried, m)
	}
}

func (t *Together) begun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.tried != nil
}
