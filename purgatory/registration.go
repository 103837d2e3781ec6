package purgatory

import (
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

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

// proceed goes on with a registration. After a panic in user code, which is reported,
// the caller has to call it again.
func (p *DelayedOperationPurgatory[K]) proceed(r *registration, w *waits[K]) {
	defer p.survive(r, w)
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
		if r.timeout > 0 && r.m.ReleaseUnmarked() {
			r.step = finished
			break
		}
		p.letGo(r, w)
	}
}

// survive is called when proceed returns, or user code in it has panicked or called
// runtime.Goexit; that is the last chance then to go on.
func (p *DelayedOperationPurgatory[K]) survive(r *registration, w *waits[K]) {
	if v := recover(); v != nil {
		guard.Report(v, p.panicked, func() { p.resume(r, w) })
		return
	}
	p.resume(r, w)
}

// satisfiedAtOnce ends an operation that need not wait; unless the purgatory has
// closed, for then Shutdown may have returned already, and no callback may run.
func (p *DelayedOperationPurgatory[K]) satisfiedAtOnce(r *registration, w *waits[K]) {
	s := p.watchers.Shard(w.hashes[0])
	run, open := s.Pass(operation.Satisfied)
	if !open {
		p.reject(r, w, p.errorf(ErrClosed, "%T", r.op))
		return
	}
	r.step, r.completed = finished, true
	machines, outcomes := [1]*operation.Machine{r.m}, [1]operation.Outcome{operation.Satisfied}
	batch := watchers.Ending{Machines: machines[:], Outcomes: outcomes[:]}
	p.settle(batch, nil)
	p.answer(s, batch, run)
}

// watch links the operation under all its keys; false if the purgatory has closed.
func (p *DelayedOperationPurgatory[K]) watch(r *registration, w *waits[K]) bool {
	r.now = p.timer.Now()
	r.m.SetStart(r.now)
	for i := range w.len() {
		key, position := w.key(i)
		var hash uint64
		if i < len(w.hashes) {
			hash = w.hashes[i]
		} else {
			hash = p.watchers.Hash(key)
		}
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
	linked := p.watchers.Shard(w.hashes[0]).Withdraw(r.m)
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
