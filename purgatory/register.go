package purgatory

import (
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// At is a key, and a position on it that an operation waits for: an offset in a
// log, a term, a commit index.
type At[K comparable] struct {
	Key      K
	Position int64
}

// Any is the position of an operation that waits for no position in particular
// on a key: it is tried at every event on it.
const Any = watchers.Any

// Everything is the position that reaches every waiter.
const Everything = watchers.Everything

// TryCompleteElseWatch tries op, and if its condition is not met has it wait,
// watched under each of keys, until a check finds that it is, somebody ends it, or
// timeout has passed.
//
// completed reports whether op ended by this very call: its condition was met, or
// somebody ended it while the call was trying it. Its OnComplete has then run on
// this goroutine (see the package comment for the one exception, a long chain of
// callbacks). err is nil if op was accepted, and then it ends exactly once.
// Otherwise it was not accepted, and none of its callbacks will run: ErrClosed,
// ErrFull, ErrNoKeys, ErrTooManyKeys, ErrNilOperation, ErrUsed. (An operation that was
// refused because the purgatory closed halfway through is spent: ErrUsed.)
//
// TryComplete runs at most twice here, however many keys there are: before op is
// watched, and after, for a state change that came in between. (And again for each
// change that is signalled while it runs.) With a timeout of zero or less it runs
// once, and op expires at once, on a worker. A timeout of math.MaxInt64 is in effect
// never. It does not block.
func (p *DelayedOperationPurgatory[K]) TryCompleteElseWatch(op operation.Operation, timeout time.Duration, keys ...K) (completed bool, err error) {
	return p.register(op, timeout, keys, nil)
}

// TryCompleteElseWatchAt is TryCompleteElseWatch for an operation that waits for
// positions: CheckAndCompleteUpTo tries it only when the key has come as far. With
// position Any it is tried at every event.
func (p *DelayedOperationPurgatory[K]) TryCompleteElseWatchAt(op operation.Operation, timeout time.Duration, at ...At[K]) (completed bool, err error) {
	return p.register(op, timeout, nil, at)
}

func (p *DelayedOperationPurgatory[K]) register(op operation.Operation, timeout time.Duration, keys []K, at []At[K]) (bool, error) {
	w := waits[K]{keys: keys, at: at}
	if !p.admits(op, w.len()) {
		return false, p.refuse(op, w.len())
	}
	// Before anything else: a key that cannot be hashed panics, and nothing is lost.
	for i := range w.len() {
		key, _ := w.key(i)
		if hash := p.watchers.Hash(key); i < len(w.hashes) {
			w.hashes[i] = hash
		}
	}
	if p.cfg.maxPending > 0 && !p.reserve() {
		p.rejected.Add(1)
		return false, p.errorf(ErrFull, "%d operations are pending", p.cfg.maxPending)
	}
	r := registration{op: op, m: operation.Of(op), timeout: timeout}
	if !r.m.Begin(op, w.len()) {
		p.release(1)
		p.rejected.Add(1)
		return false, p.errorf(ErrUsed, "%T was submitted before", op)
	}
	p.resume(&r, &w)
	return r.completed, r.err
}

// waits is what an operation is to wait for. It is kept apart from the registration
// so that the caller's slice of keys need not be allocated.
type waits[K comparable] struct {
	keys   []K
	at     []At[K]
	hashes [4]uint64 // of the first keys; of others they are computed again
}

func (w *waits[K]) len() int { return len(w.keys) + len(w.at) }

func (w *waits[K]) key(i int) (key K, position int64) {
	if w.at != nil {
		return w.at[i].Key, w.at[i].Position
	}
	return w.keys[i], Any
}

// admits answers what needs no state.
func (p *DelayedOperationPurgatory[K]) admits(op operation.Operation, keys int) bool {
	return keys > 0 && keys <= operation.MaxKeys && !isNil(op) && !p.draining.Load()
}

// refuse says why an operation is not admitted.
func (p *DelayedOperationPurgatory[K]) refuse(op operation.Operation, keys int) error {
	p.rejected.Add(1)
	switch {
	case isNil(op):
		return p.errorf(ErrNilOperation, "%T", op)
	case keys == 0:
		return p.errorf(ErrNoKeys, "%T", op)
	case keys > operation.MaxKeys:
		return p.errorf(ErrTooManyKeys, "%d, the maximum is %d", keys, operation.MaxKeys)
	default:
		return p.errorf(ErrClosed, "%T", op)
	}
}

// isNil reports whether op is nil or holds a nil pointer: its data word is 0.
func isNil(op operation.Operation) bool {
	return op == nil || (*[2]unsafe.Pointer)(unsafe.Pointer(&op))[1] == nil
}

// reserve counts one more pending operation against the maximum.
func (p *DelayedOperationPurgatory[K]) reserve() bool {
	for {
		n := p.pending.Load()
		if n >= int64(p.cfg.maxPending) {
			return false // and nobody has been counted, whom another would take for one that is pending
		}
		if p.pending.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (p *DelayedOperationPurgatory[K]) release(n int) {
	if p.cfg.maxPending > 0 {
		p.pending.Add(int64(-n))
	}
}
