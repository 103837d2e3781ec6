package purgatory

import (
	"context"
	"hash/maphash"
	"iter"
	"math"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// KeyPosition is a key with the position that an operation waits for, as a commit index: CheckAndCompleteUpTo(key, p)
// tries it if Position is at most p. A position is an end: if a log's high watermark is the end of what is replicated,
// the record at offset waits for offset+1. One that is too high completes the operation late.
type KeyPosition[K comparable] struct {
	Key      K
	Position int64
}

// AnyPosition is that of an operation that waits for none: every check of the key tries it.
const AnyPosition int64 = math.MinInt64

// EveryPosition is the highest: a check up to it tries every operation of the key.
const EveryPosition int64 = math.MaxInt64

// NoTimeout is a timeout that does not pass.
const NoTimeout = time.Duration(1<<63 - 1)

// TryCompleteElseWatch tries op. If its condition is not met, op waits under each of keys until a check finds that it
// is, a method of the purgatory ends op, or timeout has passed. It does not block.
//
// If err is nil, op was accepted and ends exactly once. completed reports whether this call has ended op; OnComplete
// has then run on this goroutine, or, where the stack is over 400 frames deep, perhaps on a worker. Otherwise op was
// refused and has no callback, but TryComplete may have run, and returned true. An operation is used once, also one that
// was refused.
//
// TryComplete runs before op is watched, and once more afterwards, for a change in between. A check that comes
// meanwhile causes another try, up to eight in a row; then a worker makes the next one. keys are copied before
// TryComplete runs; one that is named twice counts as two.
//
// With a timeout of zero or less op expires at once, on a worker (on a manual clock: in the next AdvanceClock, or in the
// one that is in progress). [NoTimeout] never passes.
//
// Errors:
//
//   - [ErrClosed]: the purgatory is closed or is shutting down, or its timer has stopped
//   - [ErrFull]: op has to wait, and the purgatory, its timer or op's first key has as many operations as it may
//   - [ErrNoKeys]: no keys, or one that is not equal to itself
//   - [ErrNilOperation]: op is nil, or embeds a nil pointer
//   - [ErrUsed]: op was submitted before
func (p *Purgatory[K]) TryCompleteElseWatch(op operation.Operation, timeout time.Duration, keys ...K) (completed bool, err error) {
	if len(keys) == 1 && keys[0] == keys[0] { //nolint:gocritic // the usual case, and no NaN
		r := registration[K]{p: p, op: op, timeout: timeout}
		one := [1]watchers.Wait[K]{{Key: keys[0], Position: AnyPosition, Hash: maphash.Comparable(p.seed, keys[0])}}
		return r.enroll(one[:], false)
	}
	return p.submit(op, timeout, keys, nil)
}

// TryCompleteElseWatchAt is [Purgatory.TryCompleteElseWatch] for positions: [Purgatory.CheckAndCompleteUpTo] tries op
// only when a key has reached its position. Use [AnyPosition] for a key that has none, as the name of a connection for
// CancelForKey.
func (p *Purgatory[K]) TryCompleteElseWatchAt(op operation.Operation, timeout time.Duration, at ...KeyPosition[K]) (completed bool, err error) {
	return p.submit(op, timeout, nil, at)
}

// CheckAndComplete tries every operation that waits for one of keys, and ends those whose condition is met. Call it
// after the state that they wait for has changed. It does not block, and returns how many it has ended itself.
//
// It tries the operations of a key in the order in which they were registered; those that wait for a position come
// after the others, in order of position. Callbacks run on this goroutine, after up to 128 operations of a key have
// ended. If you hold a lock that an operation's method takes, use [Purgatory.Signal].
//
// One goroutine at a time tries the operations of a key. Beside another one, as inside a TryComplete of the key,
// CheckAndComplete leaves a mark, counts none of them, and may return before they are tried: that goroutine goes over
// the key once more, or a worker does.
func (p *Purgatory[K]) CheckAndComplete(keys ...K) (completed int) {
	if len(keys) == 1 {
		return p.check(watchers.Wait[K]{Key: keys[0], Position: EveryPosition, Hash: maphash.Comparable(p.seed, keys[0])})
	}
	var few [fewKeys]watchers.Wait[K]
	all := p.hashed(few[:0], EveryPosition, keys)
	for _, k := range all {
		p.walks(1, k.Key) // also those whose turn has not come
	}
	i := 0
	defer func() { // after runtime.Goexit in a callback workers check the other keys
		for i++; i < len(all); i++ {
			p.signal(all[i])
		}
		for _, k := range all {
			p.walks(-1, k.Key)
		}
	}()
	for ; i < len(all); i++ {
		completed += p.check(all[i])
	}
	return completed
}

// CheckAndCompleteUpTo is [Purgatory.CheckAndComplete] for a key whose state has reached position: it does not try
// those that wait for a higher one, and its cost does not depend on how many these are.
func (p *Purgatory[K]) CheckAndCompleteUpTo(key K, position int64) (completed int) {
	return p.check(watchers.Wait[K]{Key: key, Position: position, Hash: maphash.Comparable(p.seed, key)})
}

// ForceComplete ends op as forced, and reports whether this call has. Use it to answer early with what there is, and
// Cancel for a failure. The callbacks run on this goroutine. It does not block.
//
// It returns false if op has ended, was not accepted, or belongs to another purgatory; and if another goroutine is
// trying op, which then ends it as forced, unless its try returns true or another end was asked for before.
func (p *Purgatory[K]) ForceComplete(op operation.Operation) bool {
	return p.endNow(op, machine.Forced, nil)
}

// Cancel is [Purgatory.ForceComplete] with the outcome cancelled and a cause, for [operation.DelayedOperation.Cause].
// With [context.Canceled] or [context.DeadlineExceeded] the client has given up: see [Stats].
func (p *Purgatory[K]) Cancel(op operation.Operation, cause error) (cancelled bool) {
	if m := machine.Of(op); m.Owner() != p.id || m.Ending() {
		return false
	}
	own := cause // as in CancelForKey
	cancelled = p.endNow(op, machine.Cancelled, &own)
	if cancelled && (cause == context.Canceled || cause == context.DeadlineExceeded) { //nolint:errorlint // what context.Cause returns, and no method of the user's
		p.gaveUp.Add(1)
	}
	return cancelled
}

func (p *Purgatory[K]) endNow(op operation.Operation, o machine.Outcome, cause *error) bool {
	m := machine.Of(op)
	if !p.claim(m, o, cause) {
		return false
	}
	p.endOne(m, cause, false)
	return true
}

// CancelForKey ends every operation that waits for key as cancelled with cause, which may be nil, and returns how many
// it has ended. It claims all of them, and then runs the callbacks on this goroutine. One that another goroutine is
// trying is cancelled by that goroutine, unless the try returns true. It does not block.
//
// What is registered later waits: if requests for key have become pointless, change the state first, have conditions
// return true in that state too, and then call CancelForKey. Beside a crowd that keeps registering for key, one that
// waits for a position, and so stands behind them, may stay.
func (p *Purgatory[K]) CancelForKey(key K, cause error) (cancelled int) {
	at := watchers.Wait[K]{Key: key, Hash: maphash.Comparable(p.seed, key)}
	if p.watchers.Waiting(at) == 0 {
		return 0
	}
	own := cause // which is allocated here, and not where nobody waits
	return p.endKey(at, machine.Cancelled, &own, false)
}

// Extend moves the deadline of a pending op to timeout from now, and reports whether it has: op does not expire
// before. It may succeed for some time after the old deadline, where no clock has come by yet. It returns false if op
// has ended, is expiring, is still being registered, or belongs to another purgatory. It runs no callback and does not
// block. With a timeout of zero or less op expires at once.
func (p *Purgatory[K]) Extend(op operation.Operation, timeout time.Duration) bool {
	m := machine.Of(op)
	if !m.AcceptedBy(p.id) {
		return false
	}
	deadline := timer.Deadline(p.entries.Here(), timeout)
	p.startReaper()
	return p.entries.Extend(entryOf(m), deadline)
}

// Keys returns an iterator over the keys that operations wait for, in no order; one that comes or goes meanwhile may be
// missing. The loop's body may call any method.
func (p *Purgatory[K]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range p.watchers.Each(0) {
			if !yield(k.Key) {
				return
			}
		}
	}
}

// Waiting returns how many operations wait for key. It costs a lookup under a lock.
func (p *Purgatory[K]) Waiting(key K) int {
	return p.watchers.Waiting(watchers.Wait[K]{Key: key, Hash: maphash.Comparable(p.seed, key)})
}

// Timer returns the purgatory's timer, for tasks on its clock, and starts the reaper that drives it.
func (p *Purgatory[K]) Timer() timer.Timer {
	p.entries.Here() // beyond a bubble's border no reaper must start
	p.startReaper()
	return p.cfg.timer
}

// Waited returns for how long op has waited; 0 if it did not have to, or belongs to another purgatory. Call it in a
// callback of op, or once op was accepted.
func (p *Purgatory[K]) Waited(op operation.Operation) time.Duration {
	if m := machine.Of(op); m.Owner() == p.id && m.Start() >= 0 {
		return p.cfg.timer.Now() - m.Start()
	}
	return 0
}
