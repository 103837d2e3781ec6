package purgatory

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// registration is one call of TryCompleteElseWatch. The caller is the operation's holder
// until the operation is in the timer and in every list, and has been tried. No other
// goroutine can try or end it halfway: they leave marks, which the holder sees at the
// end.
//
// No wake-up is lost:
//
//  1. A goroutine that changes state does so before CheckAndComplete looks for
//     watchers.
//  2. If the operation was linked under the key by then, CheckAndComplete finds it,
//     and either tries it or leaves a mark.
//  3. If not, the operation is linked later, and the second try comes later still:
//     it sees the change.
//
// Closing is not lost either: the shard of the first key decides whether the operation is
// accepted. If it is closed it refuses the operation, and Close finds every operation that it has
// accepted before.
//
// With [WithFirstInFirstOut] a walk in order over each key takes the place of the second try;
// it comes later than the link, too.
type registration[K comparable] struct {
	machine.Hold
	p       *DelayedOperationPurgatory[K]
	timeout time.Duration
	tried   bool // the caller has made the first try
	step    step

	completed bool
	err       error
}

// step is what a registration does next. It is set before user code runs, to what comes
// after a TryComplete that returns false: a panic counts as false.
type step uint8

const (
	begin    step = iota // the caller is not the holder yet
	watch                // the caller is the holder; the first try, if there is one, has begun; the operation is in no list
	tryAgain             // the operation is watched
	release              // the second try, if there is one, has begun
	finished             // the caller has let go of the operation, or ends it
)

// run takes the registration from its step to the end.
func (r *registration[K]) run(waits []watchers.Wait[K]) {
	defer func() {
		if r.step != finished {
			r.survive(recover(), waits)
		}
	}()
	p := r.p
	if r.step == begin {
		if !r.Begin(len(waits), p.id) {
			r.refuse(ErrUsed, "%T was submitted before%s", r.Op, p.elsewhere(r.Machine))
			return
		}
		if !p.takePlace() {
			p.wishes.Reject(r.Machine, false)
			r.refuse(ErrFull, "%d operations are pending", p.cfg.maxPending)
			return
		}
		r.step = watch
		if p.nesting.forbidsRegistration(r.Machine) {
			r.goOn(waits)
			return
		}
		if !r.tried && (!p.inLine(waits) || !p.othersWait(waits)) {
			if end, _ := r.Try(false); end == machine.Satisfied {
				r.pass(waits)
				return
			}
		}
	}
	if r.step == watch && !r.watch(waits) {
		return
	}
	end, again := machine.Pending, true
	if r.step == tryAgain {
		r.step = release
		if p.inLine(waits) {
			r.releaseInOrder(waits)
			return
		}
		end, again = r.Try(true)
	}
	if again {
		end = r.again()
	}
	if r.step = finished; end != machine.Pending {
		r.end(end, waits)
	}
}

// inLine reports whether operations on these keys wait their turn. Those that wait without a key do not.
func (p *DelayedOperationPurgatory[K]) inLine(waits []watchers.Wait[K]) bool {
	return p.cfg.firstInFirstOut && waits[0].Hash != p.noKey
}

// othersWait reports whether an operation waits for one of these keys. One that is in line has to
// wait its turn then.
func (p *DelayedOperationPurgatory[K]) othersWait(waits []watchers.Wait[K]) bool {
	return slices.ContainsFunc(waits, func(w watchers.Wait[K]) bool {
		return p.watchers.Shard(w.Hash).Awaited(w.Key, w.Hash)
	})
}

// again is [DelayedOperationPurgatory.tryAgain] for the operation.
func (r *registration[K]) again() (end machine.Outcome) {
	inRow := 0
	return r.p.tryAgain(&r.Hold, &inRow, func() machine.Outcome {
		end, _ := r.Try(false)
		return end
	})
}

// releaseInOrder releases the operation without a try, unless others have asked for one, and
// tries those that wait for its keys in order, the operation itself among them.
func (r *registration[K]) releaseInOrder(waits []watchers.Wait[K]) {
	p, m := r.p, r.Machine
	if end := r.again(); end != machine.Pending {
		r.end(end, waits)
		return
	}
	r.step = finished
	defer func() { // after a Goexit in a walk, or where no check may be made, workers check the keys
		for _, w := range waits {
			p.signal(w.Key, w.Hash, EveryPosition, true)
		}
	}()
	if p.nesting.forbidsCheck() {
		return
	}
	for len(waits) > 0 {
		w := p.newWalk(waits[0].Key, waits[0].Hash, EveryPosition)
		waits = waits[1:]
		w.inOrder, w.own = true, m
		_, own := w.begin()
		r.completed = r.completed || own
	}
}

// survive takes the registration to its end when user code has panicked with v, or has called
// runtime.Goexit: v is nil then. It does so here, in the deferred function, because a panic may
// have come from a function that was deferred by code that called runtime.Goexit: then only
// deferred functions run.
func (r *registration[K]) survive(v any, waits []watchers.Wait[K]) {
	if r.Machine == nil {
		r.refuse(ErrNilOperation, "%s", nilText(r.Op))
		return
	}
	defer func() {
		if r.step != finished { // a Goexit, also one of the panic handler
			r.goOn(waits)
		}
	}()
	if v != nil {
		r.p.reportPanic(v, r.Machine, "TryComplete", waits[0].Key)
		r.run(waits)
	}
}

// goOn watches the operation, so that the caller knows whether it was accepted, and has another
// goroutine, whose stack is small, go on.
func (r *registration[K]) goOn(waits []watchers.Wait[K]) {
	if r.step == watch && !r.watch(waits) {
		return
	}
	rest := new(registration[K]) // copied here, so that r stays on the stack of other registrations
	*rest = *r
	r.step = finished
	copied := slices.Clone(waits)
	sched.Go(func() { rest.run(copied) })
}

// pass ends an operation whose condition the first try has met. If the purgatory has
// closed meanwhile, pass rejects it: Shutdown may have returned, after which no callback
// runs.
func (r *registration[K]) pass(waits []watchers.Wait[K]) {
	first := r.p.watchers.Shard(waits[0].Hash)
	if !first.Pass(machine.Satisfied) {
		r.reject(false, ErrClosed, "%s", kindOf(r.Op))
		return
	}
	r.step, r.completed = finished, true
	e := r.p.newEnding(first)
	e.add(r.Machine, machine.Satisfied)
	e.keys[0] = waits[0].Key
	e.settle()
	if e.answer(r.p.enter(first)) {
		e.recycle()
	}
}

// watch schedules the operation's timeout and links the operation under all its keys. It
// reports whether the caller still holds the operation.
//
// The timer comes first, because it can refuse, and an operation that is in a list is
// accepted. If the timeout passes before the registration is over, the timer leaves a
// wish.
func (r *registration[K]) watch(waits []watchers.Wait[K]) (held bool) {
	p, m := r.p, r.Machine
	now := p.timer.Now()
	if err := p.timer.AddAt(entryOf(m), now, timer.Deadline(now, r.timeout)); err != nil {
		kind := ErrFull
		if errors.Is(err, timer.ErrStopped) {
			kind = ErrClosed
		}
		r.reject(false, kind, "%w", err)
		return false
	}
	m.SetStart(now)
	for i := range waits {
		w := &waits[i]
		if p.watchers.Shard(w.Hash).Watch(m, i, w) {
			continue
		}
		// Only the shard of the first key refuses. If Cancel fails, a worker of the timer has
		// claimed the entry and may still use it, unless Stop of the timer has cancelled it.
		spent := !p.timer.Cancel(entryOf(m)) && p.timer.DeadlineOf(entryOf(m)) != 0
		r.reject(spent, ErrClosed, "%s", kindOf(r.Op))
		return false
	}
	r.step = tryAgain
	return true
}

// end ends the operation with o, and with it the registration. A worker runs the callbacks of one
// whose timeout has passed: those of an expired operation never run on the goroutine that registers.
func (r *registration[K]) end(o machine.Outcome, waits []watchers.Wait[K]) {
	expired := o == machine.Expired
	r.step, r.completed = finished, !expired
	r.p.endOne(r.p.watchers.Shard(waits[0].Hash), r.Machine, o, nil, expired)
}

// reject undoes the registration of an operation that was in no list. spent reports that
// a worker of the timer may still use the operation's entry.
func (r *registration[K]) reject(spent bool, kind error, format string, args ...any) {
	r.p.freePlaces(1)
	r.p.wishes.Reject(r.Machine, spent)
	r.refuse(kind, format, args...)
}

// refuse ends the registration of an operation that is not accepted.
func (r *registration[K]) refuse(kind error, format string, args ...any) {
	r.step, r.err = finished, r.p.refuse(kind, format, args...)
}

// register is TryCompleteElseWatchAt, or TryCompleteElseWatch if at is empty.
func (p *DelayedOperationPurgatory[K]) register(op operation.Operation, timeout time.Duration, keys []K, at []KeyPosition[K]) (completed bool, err error) {
	if n := len(keys) + len(at); op == nil || p.refuses(n, 0) && (waitsIn(op) == "" || p.refuses(n, timeout)) {
		return false, p.refusal(op, n)
	}
	if timeout > 0 && timeout < p.tick {
		p.hasty(timeout)
	}
	var set keySet[K]
	var r registration[K] // set field by field: the compiler would copy a literal
	r.p, r.Op, r.timeout = p, op, timeout
	r.run(set.fill(p, keys, at))
	set.release(p)
	return r.completed, r.err
}

// keySet is the purgatory's copy of an operation's keys, with their hashes: TryComplete may write to
// the slice that the caller has passed. The zero value is empty.
type keySet[K comparable] struct {
	few  [fewKeys]watchers.Wait[K]
	many *[]watchers.Wait[K] // from the pool, if there are more keys than fit into few
}

// fewKeys is the number of keys that fit on the stack of the registering goroutine.
const fewKeys = 4

// fill copies keys and at. If there are none, it returns the key of those that wait without one: its
// hash is that of no key. It panics for a key that cannot be hashed, before anything has changed.
func (s *keySet[K]) fill(p *DelayedOperationPurgatory[K], keys []K, at []KeyPosition[K]) []watchers.Wait[K] {
	waits, n := s.few[:], len(keys)+len(at)
	if n > fewKeys {
		if s.many, _ = p.manyKeys.Get().(*[]watchers.Wait[K]); s.many == nil {
			s.many = new([]watchers.Wait[K])
		}
		*s.many = slices.Grow((*s.many)[:0], n)[:n]
		waits = *s.many
	}
	if n == 0 {
		waits[0].Position, waits[0].Hash = AnyPosition, p.noKey
		return waits[:1]
	}
	waits = waits[:n]
	seed := p.watchers.Seed()
	for i, key := range keys {
		w := &waits[i]
		w.Key, w.Position, w.Hash = key, AnyPosition, maphash.Comparable(seed, key)
	}
	for i, at := range at {
		w := &waits[i]
		w.Key, w.Position, w.Hash = at.Key, at.Position, maphash.Comparable(seed, at.Key)
	}
	return waits
}

// release gives the memory of s back to the pool, which keeps no key in memory.
func (s *keySet[K]) release(p *DelayedOperationPurgatory[K]) {
	if s.many != nil {
		clear(*s.many)
		p.manyKeys.Put(s.many)
	}
}
