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
	p         *DelayedOperationPurgatory[K]
	m         *machine.Machine
	timeout   time.Duration
	waits     []watchers.Wait[K]
	first     *watchers.Shard[K] // of waits[0]
	watched   bool
	recovered recoveries
}

// oneInLooks is how many registrations there are to one that looks at its stack. A TryComplete may
// register the next operation, whose TryComplete registers the next. A registration enters no gate,
// which would tell: the goroutine that registers an operation and the one that ends it would pass the
// gate's memory to and fro.
const oneInLooks = 512

// run registers the operation; with tried, the caller has made the first try.
func (r *registration[K]) run(tried bool) (completed bool, err error) {
	p, m, key := r.p, r.m, r.waits[0].Key
	over := false
	defer func() {
		if !over { // a TryComplete has called runtime.Goexit
			r.abandon()
		}
		r.recovered.deliver()
	}()
	inLine, deep := p.inLine(r.waits), false
	if sched.Dice(oneInLooks) == 0 {
		isDeep, inTry := machine.Nesting()
		deep = isDeep && inTry
	}
	if !tried && !deep && !(inLine && p.othersWait(r.waits)) && p.try(m, key, &r.recovered) == yes {
		over = true
		return r.pass()
	}
	if err = r.watch(); err != nil {
		over = true
		return false, err
	}
	var end machine.Outcome
	if deep {
		end = p.leave(m)
	} else {
		end, _, _ = p.ask(m, key, !inLine, false, &r.recovered)
	}
	over = true
	switch {
	case end != machine.Pending:
		// The callbacks of an operation that has expired never run on the goroutine that registers.
		completed = end != machine.Expired
		p.endOne(r.first, m, end, nil, !completed)
	case deep:
		for _, w := range r.waits {
			p.signal(w.Key, w.Hash, EveryPosition, inLine)
		}
	case inLine:
		r.checkLines()
		completed = m.Outcome() == machine.Satisfied
	}
	return completed, nil
}

// abandon goes on when a TryComplete has called runtime.Goexit. It runs no user code, since its
// goroutine is ending.
func (r *registration[K]) abandon() {
	if !r.watched && r.watch() != nil {
		return
	}
	if end := r.p.leave(r.m); end != machine.Pending {
		r.p.endOne(r.first, r.m, end, nil, true)
		return
	}
	for _, w := range r.waits { // the second try
		r.p.signal(w.Key, w.Hash, EveryPosition, r.p.inLine(r.waits))
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
		return p.watchers.Shard(w.Hash).Waiting(w.Key, w.Hash) > 0
	})
}

// checkLines tries those that wait for the operation's keys in order, the operation itself among them.
func (r *registration[K]) checkLines() {
	waits := r.waits
	defer func() { // after a runtime.Goexit in a walk, workers check the other keys
		for _, w := range waits {
			r.p.signal(w.Key, w.Hash, EveryPosition, true)
		}
	}()
	for len(waits) > 0 {
		w := waits[0]
		waits = waits[1:]
		r.p.checkInOrder(w.Key, w.Hash)
	}
}

// pass ends an operation whose condition the first try has met. If the purgatory has
// closed meanwhile, pass rejects it: Shutdown may have returned, after which no callback
// runs.
func (r *registration[K]) pass() (completed bool, err error) {
	if !r.first.Pass(machine.Satisfied) {
		return false, r.reject(false, ErrClosed, "%s", kindOf(r.m.Operation()))
	}
	var e single[K]
	e.of(r.p, r.first, r.m, machine.Satisfied, r.waits[0].Key)
	deep, _ := r.p.enter(r.first)
	r.p.wishes.Settle(e.ops, e.outcomes, nil)
	e.finish(deep)
	return true, nil
}

// watch schedules the operation's timeout and links the operation under all its keys. If it returns an
// error, the operation is not accepted, and the caller does not hold it any more.
//
// The timer comes first, because it can refuse, and an operation that is in a list is
// accepted. If the timeout passes before the registration is over, the timer leaves a
// wish.
func (r *registration[K]) watch() error {
	p, m := r.p, r.m
	if !p.takePlace() {
		return r.reject(false, ErrFull, "%d operations are pending", p.cfg.maxPending)
	}
	now := p.timer.Now()
	if err := p.timer.AddAt(entryOf(m), now, timer.Deadline(now, r.timeout)); err != nil {
		p.freePlaces(1)
		kind := ErrClosed
		if errors.Is(err, timer.ErrFull) {
			kind = ErrFull
		}
		return r.reject(false, kind, "%w", err)
	}
	m.SetStart(now)
	for i := range r.waits {
		w := &r.waits[i]
		refused := p.watchers.Shard(w.Hash).Watch(m, i, w)
		if refused == watchers.Accepted {
			continue
		}
		// Only the shard of the first key refuses. If Cancel fails, a worker of the timer has
		// claimed the entry and may still use it, unless Stop of the timer has cancelled it.
		spent := !p.timer.Cancel(entryOf(m)) && p.timer.DeadlineOf(entryOf(m)) != 0
		p.freePlaces(1)
		if refused == watchers.KeyFull {
			return r.reject(spent, ErrFull, "%d operations wait for key %s", p.cfg.maxPendingPerKey, keyText(w.Key))
		}
		return r.reject(spent, ErrClosed, "%s", kindOf(m.Operation()))
	}
	r.watched = true
	return nil
}

// reject gives the operation back, which is in no list, and returns the error of its registration. spent
// reports that a worker of the timer may still use the operation's entry.
func (r *registration[K]) reject(spent bool, kind error, format string, args ...any) error {
	r.p.wishes.Reject(r.m, spent)
	return r.p.refuse(kind, format, args...)
}

// register is TryCompleteElseWatchAt, or TryCompleteElseWatch if at is empty.
func (p *DelayedOperationPurgatory[K]) register(op operation.Operation, timeout time.Duration, keys []K, at []KeyPosition[K]) (completed bool, err error) {
	m := machine.Find(op)
	if n := len(keys) + len(at); m == nil || p.refuses(n, 0) && (waitsIn(op) == "" || p.refuses(n, timeout)) {
		return false, p.refusal(op, n)
	}
	var set keySet[K]
	waits := set.fill(p, keys, at)
	completed, err = p.registerHeld(op, m, timeout, waits, false)
	set.release(p)
	return completed, err
}

// registerHeld registers op, whose machine is m.
func (p *DelayedOperationPurgatory[K]) registerHeld(op operation.Operation, m *machine.Machine, timeout time.Duration, waits []watchers.Wait[K], tried bool) (completed bool, err error) {
	if !m.Begin(op, len(waits), p.id) {
		return false, p.refuse(ErrUsed, "%T was submitted before%s", op, p.elsewhere(m))
	}
	r := registration[K]{p: p, m: m, timeout: timeout, waits: waits, first: p.watchers.Shard(waits[0].Hash)}
	return r.run(tried)
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
