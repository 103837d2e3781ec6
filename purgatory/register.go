package purgatory

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
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
// ErrFull, ErrNoKeys, ErrTooManyKeys, ErrNilOperation, ErrUsed.
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
	n := len(keys) + len(at)
	if err := p.admit(op, n); err != nil {
		p.rejected.Add(1)
		return false, err
	}
	r := registration[K]{p: p, op: op, m: operation.Of(op), timeout: timeout, keys: keys, at: at}
	// Before anything else: a key that cannot be hashed panics, and nothing is lost.
	r.hashes = r.buffer[:0]
	for i := range n {
		key, _ := r.key(i)
		r.hashes = append(r.hashes, p.watchers.Hash(key))
	}
	if err := p.reserve(); err != nil {
		p.rejected.Add(1)
		return false, err
	}
	if !r.m.Begin(op, n) {
		p.release(1)
		p.rejected.Add(1)
		return false, p.errorf(ErrUsed, "%T was submitted before", op)
	}
	r.run()
	return r.completed, r.err
}

// admit answers what needs no state.
func (p *DelayedOperationPurgatory[K]) admit(op operation.Operation, keys int) error {
	switch {
	case isNil(op):
		return p.errorf(ErrNilOperation, "%T", op)
	case keys == 0:
		return p.errorf(ErrNoKeys, "%T", op)
	case keys > operation.MaxKeys:
		return p.errorf(ErrTooManyKeys, "%d, the maximum is %d", keys, operation.MaxKeys)
	case p.draining.Load():
		return p.errorf(ErrClosed, "%T", op)
	}
	return nil
}

// isNil reports whether op is nil or holds a nil pointer: its data word is 0.
func isNil(op operation.Operation) bool {
	return op == nil || (*[2]unsafe.Pointer)(unsafe.Pointer(&op))[1] == nil
}

// reserve counts one more pending operation against the maximum, if there is one.
func (p *DelayedOperationPurgatory[K]) reserve() error {
	if p.cfg.maxPending > 0 && p.pending.Add(1) > int64(p.cfg.maxPending) {
		p.pending.Add(-1)
		return p.errorf(ErrFull, "%d operations are pending", p.cfg.maxPending)
	}
	return nil
}

func (p *DelayedOperationPurgatory[K]) release(n int) {
	if p.cfg.maxPending > 0 {
		p.pending.Add(int64(-n))
	}
}

// registration is one call of TryCompleteElseWatch. The caller holds the operation
// from the first try until it is watched everywhere and timed, so that nobody else
// can try or end it halfway: they leave marks, which the release at the end sees.
//
// No wake-up is lost. (1) A change of state is made before CheckAndComplete(key)
// looks for watchers. (2) If op was linked under key by then, CheckAndComplete finds
// it, and either tries it or leaves a mark. (3) If not, op is linked later, and the
// second try comes later still: it sees the change.
type registration[K comparable] struct {
	p       *DelayedOperationPurgatory[K]
	op      operation.Operation
	m       *operation.Machine
	timeout time.Duration
	keys    []K
	at      []At[K]
	hashes  []uint64
	buffer  [8]uint64
	now     time.Duration

	step      step // what to do next
	looks     int
	completed bool
	err       error
}

// step is how far a registration has come. It is set before user code runs, to what
// comes after a no: a panic there counts as a no.
type step uint8

const (
	firstTry step = iota
	watch
	secondTry
	schedule
	letGo
	lookAgain
	finished
)

func (r *registration[K]) key(i int) (key K, position int64) {
	if r.at != nil {
		return r.at[i].Key, r.at[i].Position
	}
	return r.keys[i], Any
}

// run goes on with the registration until it is finished, whatever user code does:
// after a panic, or while the goroutine unwinds for runtime.Goexit.
func (r *registration[K]) run() {
	for r.step != finished {
		r.proceed()
	}
}

func (r *registration[K]) proceed() {
	normal := false
	defer func() {
		if normal {
			return
		}
		if v := recover(); v != nil {
			guard.Report(v, r.p.panicked)
			return
		}
		r.run()
	}()
	for r.step != finished {
		r.once()
	}
	normal = true
}

func (r *registration[K]) once() {
	switch r.step {
	case firstTry:
		r.step = watch
		if r.op.TryComplete() {
			r.satisfiedAtOnce()
		}
	case watch:
		r.watch()
	case secondTry:
		r.try(schedule)
	case schedule:
		r.schedule()
	case letGo:
		r.letGo()
	case lookAgain:
		r.try(letGo)
	}
}

// satisfiedAtOnce ends an operation that never had to wait.
func (r *registration[K]) satisfiedAtOnce() {
	r.step, r.completed = finished, true
	batch := [1]watchers.Leaving{{Machine: r.m, Outcome: operation.Satisfied}}
	s := r.p.watchers.Shard(r.hashes[0])
	r.p.settle(s, batch[:], s.Ended(batch[:]))
}

// watch links the operation under all its keys.
func (r *registration[K]) watch() {
	r.step = secondTry
	if r.timeout <= 0 {
		r.step = schedule // one try, then expiry at once
	}
	r.now = r.p.timer.Now()
	r.m.SetStart(r.now)
	for i, hash := range r.hashes {
		key, position := r.key(i)
		if !r.p.watchers.Shard(hash).Watch(r.m, i, key, hash, position) {
			r.reject(r.p.errorf(ErrClosed, "%T", r.op))
			return
		}
	}
}

// try tries the operation once more; on a no it goes on with the step no.
func (r *registration[K]) try(no step) {
	r.step = no
	if r.op.TryComplete() {
		r.end(operation.Satisfied, nil)
	}
}

func (r *registration[K]) end(o operation.Outcome, cause *error) {
	r.step, r.completed = finished, true
	r.m.End(o, cause)
}

func (r *registration[K]) schedule() {
	r.step = letGo
	if r.timeout <= 0 {
		return // see expireOnWorker
	}
	if err := r.p.timer.AddAt(r.m.Entry(), r.now, timer.Deadline(r.now, r.timeout)); err != nil {
		r.reject(r.p.timerError(err))
	}
}

// letGo makes the operation pending, or does what somebody has asked of its holder.
func (r *registration[K]) letGo() {
	r.looks++
	verdict, wish, relook := r.m.Release(r.looks < maxLooks)
	switch {
	case verdict == operation.LookAgain:
		r.step = lookAgain
	case verdict == operation.Carry && wish == operation.Expired:
		r.m.ClearWish() // and let go once more; it expires below
		r.timeout = 0
	case verdict == operation.Carry:
		r.end(wish, r.p.wishedCause(r.m, wish))
	default:
		r.step = finished
		if relook {
			key, _ := r.key(0)
			r.p.signal(key, r.hashes[0], Everything)
		}
		if r.timeout <= 0 {
			r.expireOnWorker()
		}
	}
}

// expireOnWorker has a pending operation expire at once, but never on the
// goroutine that registers it. It is scheduled only now that it is pending, so that
// the timer, which may be faster, finds nobody to leave a wish to. Should it have
// ended meanwhile, the entry runs to no effect.
func (r *registration[K]) expireOnWorker() {
	err := r.p.timer.AddAt(r.m.Entry(), r.now, r.now)
	if err != nil && r.m.Hold() {
		r.reject(r.p.timerError(err))
	}
}

// reject undoes the registration of an operation that is held.
func (r *registration[K]) reject(err error) {
	r.step, r.err = finished, err
	r.p.watchers.Shard(r.hashes[0]).Withdraw(r.m)
	r.p.forgetWish(r.m, r.m.Reject())
	r.p.release(1)
	r.p.rejected.Add(1)
}

// timerError says that the timer takes nothing.
func (p *DelayedOperationPurgatory[K]) timerError(err error) error {
	if errors.Is(err, timer.ErrStopped) {
		return fmt.Errorf("%w: purgatory %q: %w", ErrClosed, p.name, err)
	}
	if errors.Is(err, timer.ErrFull) {
		return fmt.Errorf("%w: purgatory %q: %w", ErrFull, p.name, err)
	}
	return fmt.Errorf("purgatory %q: %w", p.name, err)
}
