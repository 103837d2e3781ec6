package purgatory

import (
	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
)

// CancelForKey ends every operation that waits for key, whatever other keys it waits for,
// as cancelled with cause, which may be nil. It returns how many it ended. Callbacks run
// as those of [DelayedOperationPurgatory.CheckAndComplete] do. If another goroutine is
// trying an operation at this moment, that goroutine cancels it unless the try returns
// true. CancelForKey does not block.
//
// CancelForKey ends what waits for key now. A request that is submitted later, or whose
// registration has not reached key yet, waits its whole timeout. So if requests for key
// have become pointless, because the leader has changed, for example, change the state
// first, have conditions return true in that state too, and then call CancelForKey.
// [AwaitValue] can return which state made the condition true.
func (p *DelayedOperationPurgatory[K]) CancelForKey(key K, cause error) (cancelled int) {
	return p.cancel(key, &cause, nil)
}

// CancelMatching is [DelayedOperationPurgatory.CancelForKey] for those operations of key
// for which match returns true: all fetches of one connection, for example. It returns
// the operations that this call has ended.
//
// match runs on this goroutine with no lock held, while other goroutines may run the
// operation's methods: it must read only fields that do not change. It must not block: up to
// 127 operations for which it has returned true end only afterwards. It is called once for
// each time that key is among the operation's keys. A panic in match counts as false.
func (p *DelayedOperationPurgatory[K]) CancelMatching(key K, cause error, match func(operation.Operation) bool) (cancelled []operation.Operation) {
	p.cancel(key, &cause, func(m *machine.Machine, claimed bool) bool {
		op := m.Operation().(operation.Operation)
		if claimed {
			cancelled = append(cancelled, op)
			return true
		}
		return match(op)
	})
	return cancelled
}

func (p *DelayedOperationPurgatory[K]) cancel(key K, cause *error, match matcher) int {
	hash := p.watchers.Hash(key)
	c := p.newCheck(p.watchers.Shard(hash))
	c.outcome, c.cause, c.match = machine.Cancelled, cause, match
	return c.begin(key, hash, EveryPosition)
}

// matcher reports whether m is to be cancelled. When the walk has then become the holder of
// m, it calls the matcher again with claimed set, and ignores the result.
type matcher func(m *machine.Machine, claimed bool) bool

func (p *DelayedOperationPurgatory[K]) matches(match matcher, m *machine.Machine, key K) bool {
	defer func() {
		if v := recover(); v != nil {
			// The report has the type of m, not what its String method returns: other
			// goroutines may be running m's methods.
			guard.Report(v, func(recovered any, stack []byte) {
				p.notePanic(recovered, stack, "operation", kindOf(m.Operation()), "callback", "match", "key", keyText(key))
			})
		}
	}()
	return match(m, false)
}
