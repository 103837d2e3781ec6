package purgatory

import (
	"slices"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// KeyPosition is a key with the position that an operation waits for: an offset in a log, for
// example, or a commit index. CheckAndCompleteUpTo(key, p) tries the operation if Position
// is at most p. If a log's high watermark is the end of what is replicated, the record at
// offset waits for position offset+1. A Position that is too low only causes tries in vain;
// one that is too high completes the operation late.
type KeyPosition[K comparable] struct {
	Key      K
	Position int64
}

// AnyPosition is the position of an operation that waits for no position in particular: every
// check of the key tries it.
const AnyPosition = watchers.AnyPosition

// EveryPosition is the highest position: a check up to it tries every operation that waits
// for the key.
const EveryPosition = watchers.EveryPosition

// TryCompleteElseWatch tries op. If op's condition is not met, op waits under each of
// keys until a check finds that the condition is met, a method of the purgatory ends op,
// or timeout has passed. TryCompleteElseWatch does not block.
//
// If err is nil, op was accepted and ends exactly once. completed reports whether this
// call has ended op: its condition was met, or another goroutine asked this one to end
// it. OnComplete has then run on this goroutine, unless the goroutine's stack is over
// 400 frames deep. If err is not nil, op was not accepted: this call causes no
// callback, and op can be submitted again, except after [ErrUsed], and after an
// [ErrClosed] that came when its timeout was passing.
//
// While no other goroutine checks a key, TryComplete runs at most twice here, however
// many keys there are: before op is watched, and afterwards, for a change of state in
// between. A check that comes while it runs causes another try, up to eight in a row;
// then a signal worker makes the next one. If TryCompleteElseWatch is called inside a
// TryComplete, on a stack of over 400 frames, it may leave every try to a signal worker. The
// purgatory copies keys before TryComplete runs.
//
// With a timeout of zero or less TryComplete runs once, and op expires at once, on an
// expiry worker (on a manual clock: in the next AdvanceClock). A timeout of math.MaxInt64
// never passes.
//
// Errors:
//   - [ErrClosed]: the purgatory is closed or is shutting down, or its timer has stopped;
//     TryComplete may have returned true before
//   - [ErrFull]: the purgatory or its timer holds as many operations as it may, whether or
//     not op's condition is met
//   - [ErrNoKeys], [ErrTooManyKeys]: there are no keys, or more than [operation.MaxKeys]
//   - [ErrNilOperation]: op is nil, or embeds a nil pointer
//   - [ErrUsed]: op was submitted before
func (p *DelayedOperationPurgatory[K]) TryCompleteElseWatch(op operation.Operation, timeout time.Duration, keys ...K) (completed bool, err error) {
	return p.register(op, timeout, keys, nil, false)
}

// TryCompleteElseWatchAt is [DelayedOperationPurgatory.TryCompleteElseWatch] for an
// operation that waits for positions: [DelayedOperationPurgatory.CheckAndCompleteUpTo]
// tries it only when the key has reached the position. A wait for position [AnyPosition] is
// tried at every check of the key. Use AnyPosition for a key that has no positions, as the
// name of a connection for CancelForKey.
func (p *DelayedOperationPurgatory[K]) TryCompleteElseWatchAt(op operation.Operation, timeout time.Duration, at ...KeyPosition[K]) (completed bool, err error) {
	return p.register(op, timeout, nil, at, false)
}

// fewKeys is the number of waits that fit on the stack of the registering goroutine.
const fewKeys = 4

// register is TryCompleteElseWatchAt, or TryCompleteElseWatch if at is empty. tried says that
// the caller has made the first try.
func (p *DelayedOperationPurgatory[K]) register(op operation.Operation, timeout time.Duration, keys []K, at []KeyPosition[K], tried bool) (completed bool, err error) {
	n := len(keys) + len(at)
	if op == nil || p.refuses(n) {
		return false, p.refusal(op, n)
	}
	var few [fewKeys]watchers.Wait[K] // copies: TryComplete may write to the slice that the caller has passed
	var many *[]watchers.Wait[K]
	waits := few[:]
	if n > fewKeys {
		many = p.manyKeys.Get().(*[]watchers.Wait[K])
		*many = slices.Grow(*many, n)
		waits = *many
	}
	waits = waits[:n]
	for i, key := range keys { // Hash panics for a key that cannot be hashed, before anything has changed
		w := &waits[i]
		w.Key, w.Position, w.Hash = key, AnyPosition, p.watchers.Hash(key)
	}
	for i, at := range at {
		w := &waits[i]
		w.Key, w.Position, w.Hash = at.Key, at.Position, p.watchers.Hash(at.Key)
	}
	var r registration[K] // set field by field: the compiler would copy a literal
	r.hold.p, r.hold.Op, r.timeout, r.tried = p, op, timeout, tried
	r.run(waits)
	if many != nil {
		clear(waits) // the pool keeps no key in memory
		p.manyKeys.Put(many)
	}
	return r.completed, r.err
}
