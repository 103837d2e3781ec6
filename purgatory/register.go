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
	if err := p.admit(op, w.len()); err != nil {
		return false, err
	}
	// Before anything else: a key that cannot be hashed panics, and nothing is lost.
	for i := range w.len() {
		key, _ := w.key(i)
		w.hashes[i&3] = p.watchers.Hash(key)
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
	for r.step != finished {
		p.proceed(&r, &w)
	}
	return r.completed, r.err
}

// waits is what an operation is to wait for. It is kept apart from the registration
// so that the caller's slice of keys need not be allocated.
type waits[K comparable] struct {
	keys   []K
	at     []At[K]
	hashes [4]uint64 // of up to as many keys; of more they are computed again
}

func (w *waits[K]) len() int { return len(w.keys) + len(w.at) }

func (w *waits[K]) key(i int) (key K, position int64) {
	if w.at != nil {
		return w.at[i].Key, w.at[i].Position
	}
	return w.keys[i], Any
}

// hash returns the hash of the i-th key, which is key.
func (p *DelayedOperationPurgatory[K]) hash(w *waits[K], i int, key K) uint64 {
	if w.len() <= len(w.hashes) {
		return w.hashes[i&3]
	}
	return p.watchers.Hash(key)
}

// admit answers what needs no state.
func (p *DelayedOperationPurgatory[K]) admit(op operation.Operation, keys int) error {
	if keys > 0 && keys <= operation.MaxKeys && !isNil(op) && !p.draining.Load() {
		return nil
	}
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

// registration is one call of TryCompleteElseWatch. The caller holds the operation
// from the first try until it is watched everywhere and timed, so that nobody else
// can try or end it halfway: they leave marks, which the release at the end sees.
//
// No wake-up is lost. (1) A change of state is made before CheckAndComplete(key)
// looks for watchers. (2) If op was linked under key by then, CheckAndComplete finds
// it, and either tries it or leaves a mark. (3) If not, op is linked later, and the
// second try comes later still: it sees the change.
type registration struct {
	op      operation.Operation
	m       *operation.Machine
	timeout time.Duration
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

// resume goes on with a registration until it is finished.
func (p *DelayedOperationPurgatory[K]) resume(r *registration, w *waits[K]) {
	for r.step != finished {
		p.proceed(r, w)
	}
}

// proceed goes on with a registration, whatever user code does. After a panic the
// caller has to call it again; while the goroutine unwinds for runtime.Goexit it does
// so itself, for it is the last chance.
func (p *DelayedOperationPurgatory[K]) proceed(r *registration, w *waits[K]) {
	normal := false
	defer func() {
		if normal {
			return
		}
		if v := recover(); v != nil {
			guard.Report(v, p.panicked, func() { p.resume(r, w) })
			return
		}
		p.resume(r, w)
	}()
	switch r.step {
	case firstTry:
		r.step = watch
		if r.op.TryComplete() {
			p.satisfiedAtOnce(r, w)
			break
		}
		fallthrough
	case watch:
		if r.step = secondTry; r.timeout <= 0 {
			r.step = schedule // one try, then expiry at once
		}
		if !p.watch(r, w) {
			p.reject(r, w, p.errorf(ErrClosed, "%T", r.op))
		}
	}
	if r.step == secondTry {
		r.step = schedule
		if r.op.TryComplete() {
			r.end(operation.Satisfied)
		}
	}
	if r.step == schedule {
		r.step = letGo
		if r.timeout > 0 { // else see expireOnWorker
			if err := p.timer.AddAt(r.m.Entry(), r.now, timer.Deadline(r.now, r.timeout)); err != nil {
				p.reject(r, w, p.timerError(err))
			}
		}
	}
	for r.step != finished {
		if r.step == lookAgain {
			r.step = letGo
			if r.op.TryComplete() {
				r.end(operation.Satisfied)
				break
			}
		}
		p.letGo(r, w)
	}
	normal = true
}

// satisfiedAtOnce ends an operation that need not wait; unless the purgatory has
// closed, for then Shutdown may have returned already, and no callback may run.
func (p *DelayedOperationPurgatory[K]) satisfiedAtOnce(r *registration, w *waits[K]) {
	s := p.watchers.Shard(p.firstHash(w))
	run, open := s.Pass(operation.Satisfied)
	if !open {
		p.reject(r, w, p.errorf(ErrClosed, "%T", r.op))
		return
	}
	r.step, r.completed = finished, true
	machines, outcomes := [1]*operation.Machine{r.m}, [1]operation.Outcome{operation.Satisfied}
	p.settle(s, watchers.Ending{Machines: machines[:], Outcomes: outcomes[:]}, run)
}

// watch links the operation under all its keys; false if the purgatory has closed.
func (p *DelayedOperationPurgatory[K]) watch(r *registration, w *waits[K]) bool {
	r.now = p.timer.Now()
	r.m.SetStart(r.now)
	for i := range w.len() {
		key, position := w.key(i)
		hash := p.hash(w, i, key)
		if !p.watchers.Shard(hash).Watch(r.m, i, key, hash, position) {
			return false
		}
	}
	return true
}

func (r *registration) end(o operation.Outcome) {
	r.step, r.completed = finished, true
	r.m.End(o, nil)
}

// letGo makes the operation pending, or does what somebody has asked of its holder.
func (p *DelayedOperationPurgatory[K]) letGo(r *registration, w *waits[K]) {
	r.looks++
	var key K
	var hash uint64
	patient := r.looks < maxLooks
	if !patient {
		key, hash = watchers.KeyOf[K](r.m) // while it is held
	}
	verdict, wish, relook := r.m.Release(patient)
	switch {
	case verdict == operation.LookAgain:
		r.step = lookAgain
	case verdict == operation.Carry && wish == operation.Expired:
		r.m.ClearWish() // and let go once more; it expires below
		r.timeout = 0
		if p.closed.Load() { // Close may have come while there was another wish
			r.end(operation.Closed)
		}
	case verdict == operation.Carry:
		r.end(wish)
	default:
		r.step = finished
		if relook {
			p.signal(key, hash, Everything)
		}
		if r.timeout <= 0 {
			p.expireOnWorker(r, w)
		}
	}
}

// firstHash returns the hash of the first key.
func (p *DelayedOperationPurgatory[K]) firstHash(w *waits[K]) uint64 {
	key, _ := w.key(0)
	return p.hash(w, 0, key)
}

// expireOnWorker has a pending operation expire at once, but never on the
// goroutine that registers it. It is scheduled only now that it is pending, so that
// the timer, which may be faster, finds nobody to leave a wish to.
func (p *DelayedOperationPurgatory[K]) expireOnWorker(r *registration, w *waits[K]) {
	err := p.timer.AddAt(r.m.Entry(), r.now, r.now)
	switch {
	case err != nil:
		// It must not wait for ever. Whoever is trying it now ends it: it is too
		// late to say that it was not accepted.
		if r.m.Claim(operation.Expired) {
			p.reject(r, w, p.timerError(err))
		}
	case r.m.Outcome() != operation.Pending: // it has ended meanwhile
		p.timer.Cancel(r.m.Entry())
	}
}

// reject undoes the registration of an operation that is held.
func (p *DelayedOperationPurgatory[K]) reject(r *registration, w *waits[K], err error) {
	r.step, r.err = finished, err
	linked := p.watchers.Shard(p.firstHash(w)).Withdraw(r.m)
	p.forgetWish(r.m, r.m.Reject(linked))
	p.release(1)
	p.rejected.Add(1)
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
