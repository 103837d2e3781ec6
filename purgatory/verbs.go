package purgatory

import (
	"iter"
	"math"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// KeyPosition is a key with the position that an operation waits for: an offset in a log, for
// example, or a commit index. CheckAndCompleteUpTo(key, p) tries the operation if Position
// is at most p. If a log's high watermark is the end of what is replicated, the record at
// offset waits for position offset+1. A Position that is too low only causes tries in vain;
// one that is too high completes the operation late.
//
// For CheckAndCompleteInOrder a Position is a priority: it tries the lowest first.
type KeyPosition[K comparable] struct {
	Key      K
	Position int64
}

// AnyPosition is the position of an operation that waits for no position in particular: every
// check of the key tries it.
const AnyPosition int64 = math.MinInt64

// EveryPosition is the highest position: a check up to it tries every operation that waits
// for the key.
const EveryPosition int64 = math.MaxInt64

// NoTimeout is a timeout that does not pass.
const NoTimeout = time.Duration(1<<63 - 1)

// TryCompleteElseWatch tries op. If op's condition is not met, op waits under each of
// keys until a check finds that the condition is met, a method of the purgatory ends op,
// or timeout has passed. TryCompleteElseWatch does not block.
//
// If err is nil, op was accepted and ends exactly once. completed reports whether this
// call has ended op: its condition was met, or another goroutine asked this one to end
// it. OnComplete has then run on this goroutine, unless the goroutine's stack is over
// 400 frames deep or the purgatory has [WithCallbacksOnWorkers]. If err is not nil, op was not accepted: this call causes no
// callback, and op can be submitted again, except after [ErrUsed], and after an
// [ErrClosed], or an [ErrFull] of its key, that came when its timeout was passing.
//
// While no other goroutine checks a key, TryComplete runs at most twice here, however
// many keys there are: before op is watched, and afterwards, for a change of state in
// between. A check that comes while it runs causes another try, up to eight in a row;
// then a signal worker makes the next one. If TryCompleteElseWatch is called inside a
// TryComplete, on a stack of over 400 frames, it may hand every try to another goroutine. The
// purgatory copies keys before TryComplete runs; one that is named twice counts as two. For [WithFirstInFirstOut] see there.
//
// With a timeout of zero or less op expires at once, on a worker (on a manual clock: in the
// next AdvanceClock). [NoTimeout] never passes.
//
// Errors:
//   - [ErrClosed]: the purgatory is closed or is shutting down, or its timer has stopped;
//     TryComplete may have returned true before
//   - [ErrFull]: op has to wait, and the purgatory, its timer or op's first key has as many
//     operations as it may
//   - [ErrNoKeys], [ErrTooManyKeys]: there are no keys, or more than [operation.MaxKeys]
//   - [ErrNilOperation]: op is nil, or embeds a nil pointer
//   - [ErrUsed]: op was submitted before
func (p *DelayedOperationPurgatory[K]) TryCompleteElseWatch(op operation.Operation, timeout time.Duration, keys ...K) (completed bool, err error) {
	return p.submit(op, timeout, keys, nil)
}

// TryCompleteElseWatchAt is [DelayedOperationPurgatory.TryCompleteElseWatch] for an
// operation that waits for positions: [DelayedOperationPurgatory.CheckAndCompleteUpTo]
// tries it only when the key has reached the position. A wait for position [AnyPosition] is
// tried at every check of the key. Use AnyPosition for a key that has no positions, as the
// name of a connection for CancelForKey.
func (p *DelayedOperationPurgatory[K]) TryCompleteElseWatchAt(op operation.Operation, timeout time.Duration, at ...KeyPosition[K]) (completed bool, err error) {
	return p.submit(op, timeout, nil, at)
}

// CheckAndComplete tries every operation that waits for one of keys, and ends those
// whose condition is met. Call it after the state that they wait for has changed. It
// returns how many it ended. It does not block.
//
// It goes from key to key, and tries the operations of a key in the order in which they were
// registered (those that wait for a position after the others, in order of position). An
// operation that waits for several of the keys may be tried once for each. The callbacks of up
// to 128 operations of a key run on this goroutine after all of these have been tried and
// ended. The purgatory holds no lock meanwhile. If you hold a lock that an operation's method
// takes, use [DelayedOperationPurgatory.Signal] or an [ActionQueue].
//
// Other goroutines may do some of the work, and what they end is not counted. If
// another goroutine is trying an operation at this moment, that goroutine tries it again.
// Inside a TryComplete, and on a stack of over 400 frames, CheckAndComplete may hand the
// check to a signal worker, as Signal does.
func (p *DelayedOperationPurgatory[K]) CheckAndComplete(keys ...K) (completed int) {
	p.made()
	if len(keys) == 1 {
		return p.called(keys[0], p.watchers.Hash(keys[0]), EveryPosition)
	}
	hashes := p.hashes(keys)
	p.underWay(keys, 1)
	i := 0
	defer func() { // after runtime.Goexit in a callback workers check the other keys
		for i++; i < len(keys); i++ {
			p.signal(keys[i], hashes[i], EveryPosition)
		}
		p.underWay(keys, -1)
	}()
	for ; i < len(keys); i++ {
		completed += p.called(keys[i], hashes[i], EveryPosition)
	}
	return completed
}

// underWay tells the hook with 1 that all of keys are being checked, also those whose turn has not come, and with -1
// that they have been.
func (p *DelayedOperationPurgatory[K]) underWay(keys []K, n int) {
	if h := p.cfg.hook; h != nil {
		for _, key := range keys {
			h.Walk(key, n)
		}
	}
}

// called is a check of a key that the user asks for.
func (p *DelayedOperationPurgatory[K]) called(key K, hash uint64, upTo int64) int {
	if h := p.cfg.hook; h != nil {
		h.Called(key, upTo, false)
	}
	return p.check(key, hash, upTo)
}

// CheckAndCompleteUpTo is [DelayedOperationPurgatory.CheckAndComplete] for a key whose
// state has reached position. It tries all operations that wait for no position on the
// key, and then those that wait for this position or a lower one, in order of position.
// Its cost does not depend on how many wait for higher positions.
func (p *DelayedOperationPurgatory[K]) CheckAndCompleteUpTo(key K, position int64) (completed int) {
	p.made()
	return p.called(key, p.watchers.Hash(key), position)
}

// ForceComplete ends op as forced and reports whether this call has ended it. Use it to
// answer early with what there is, and Cancel for a failure. The callbacks run on this
// goroutine. ForceComplete does not block.
//
// It returns false if op has ended, was not accepted, or is an operation of another
// purgatory. It also returns false if another goroutine is trying op at this moment: that
// goroutine then ends op as forced, unless its try returns true or another method has
// asked it before to end op in another way.
func (p *DelayedOperationPurgatory[K]) ForceComplete(op operation.Operation) bool {
	return p.endNow(op, machine.Forced, nil)
}

// Cancel ends op as cancelled with cause, which [operation.DelayedOperation.Cause] then
// returns, and reports whether this call has ended it. The callbacks run on this
// goroutine. Cancel does not block. It returns false where
// [DelayedOperationPurgatory.ForceComplete] does.
func (p *DelayedOperationPurgatory[K]) Cancel(op operation.Operation, cause error) bool {
	own := cause // as in CancelForKey
	return p.endNow(op, machine.Cancelled, &own)
}

func (p *DelayedOperationPurgatory[K]) endNow(op operation.Operation, o machine.Outcome, cause *error) bool {
	p.made()
	m := machine.Find(op)
	if m == nil || !p.claim(m, o, cause) {
		return false
	}
	p.endOne(m, cause, false)
	return true
}

// CancelForKey ends every operation that waits for key, whatever other keys it waits for,
// as cancelled with cause, which may be nil. It returns how many it ended. Callbacks run
// as those of [DelayedOperationPurgatory.CheckAndComplete] do. If another goroutine is
// trying an operation at this moment, that goroutine cancels it unless the try returns
// true. CancelForKey does not block.
//
// CancelForKey ends what waits for key now. (While a manual clock stands still, callbacks that keep registering operations
// for lower positions may keep it from some.) A request that is submitted later, or whose
// registration has not reached key yet, waits its whole timeout. So if requests for key
// have become pointless, because the leader has changed, for example, change the state
// first, have conditions return true in that state too, and then call CancelForKey.
// [AwaitValue] can return which state made the condition true.
func (p *DelayedOperationPurgatory[K]) CancelForKey(key K, cause error) (cancelled int) {
	p.made()
	hash := p.watchers.Hash(key)
	if s := p.watchers.Used(hash); s == nil || s.Waiting(key, hash) == 0 {
		return 0
	}
	own := cause // which is allocated here, and not where nobody waits
	return p.endKey(key, hash, machine.Cancelled, &own, false)
}

// Extend moves the deadline of a pending op to timeout from now, and reports whether it
// has. If it returns true, op will not expire before the new deadline. If it returns
// false, op has ended, is expiring, is still being registered, or is an operation of
// another purgatory. Extend runs no callback and does not block.
//
// If you keep sessions in a map, to find the one that a heartbeat is for, add a session to the map
// after TryCompleteElseWatch has returned, and let OnComplete delete it. OnComplete may have run by
// then. So do both under one lock, and add the session only if its Outcome is Pending: otherwise a
// session that has ended stays in the map.
//
// A later deadline, as with a heartbeat, costs one reading of the clock and one lock, and
// does not touch the wheel. An earlier deadline moves op in its wheel. With a timeout of
// zero or less op expires at once, on an expiry worker (on a manual clock: in the next
// AdvanceClock).
func (p *DelayedOperationPurgatory[K]) Extend(op operation.Operation, timeout time.Duration) bool {
	p.made()
	m := machine.Find(op)
	if m == nil || !m.AcceptedBy(p.id) {
		return false
	}
	deadline := timer.Deadline(p.now(), timeout)
	if !p.reaping.off.Load() {
		p.startReaper()
	}
	return p.entries.Extend(entryOf(m), deadline)
}

// Keys returns an iterator over the keys that operations wait for, in no order. It holds
// no lock while the loop's body runs, so the body may call any method. It yields every key
// that operations wait for during the whole loop. It may or may not yield a key that comes
// or goes meanwhile, and it may yield a key twice if many others go meanwhile. See
// [DelayedOperationPurgatory.NumKeys] for the number of keys.
func (p *DelayedOperationPurgatory[K]) Keys() iter.Seq[K] {
	p.made()
	return func(yield func(K) bool) {
		for k := range p.watchers.AllKeys() {
			if !yield(k.Key) {
				return
			}
		}
	}
}

// Waiting returns how many operations wait for key. It costs a lookup under a lock. The
// answer may be outdated when it comes.
func (p *DelayedOperationPurgatory[K]) Waiting(key K) int {
	p.made()
	hash := p.watchers.Hash(key)
	if s := p.watchers.Used(hash); s != nil {
		return s.Waiting(key, hash)
	}
	return 0
}

// Timer returns the purgatory's timer, and starts the reaper, which drives it, unless there is none. Use it for tasks that are to run on the clock of
// the purgatory, which a test may move.
func (p *DelayedOperationPurgatory[K]) Timer() timer.Timer {
	p.made()
	if p.now(); !p.reaping.off.Load() { // beyond a bubble's border no reaper must start
		p.startReaper()
	}
	return p.timer
}

// Waited returns how long op has waited: in OnComplete, from its registration until now. It returns 0 if op
// did not have to wait, or is an operation of another purgatory. Call it in a callback of op: it goes on growing.
func (p *DelayedOperationPurgatory[K]) Waited(op operation.Operation) time.Duration {
	p.made()
	if m := machine.Find(op); m != nil && m.Owner() == p.id && m.Start() >= 0 {
		return p.timer.Now() - m.Start()
	}
	return 0
}
