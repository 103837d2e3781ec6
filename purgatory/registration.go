package purgatory

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// registerHeld registers the operation of m, which the caller holds, and if tried is true has tried. The caller
// stays the holder until the operation is in the timer and in every list, and has been tried again. No other
// goroutine can try or end it halfway: they set marks, which the holder sees at the end.
//
// No wake-up is lost:
//
//  1. A goroutine that changes state does so before CheckAndComplete looks for
//     watchers.
//  2. If the operation was linked under the key by then, CheckAndComplete finds it,
//     and either tries it or sets a mark.
//  3. If not, the operation is linked later, and the second try comes later still:
//     it sees the change.
//
// Closing is not lost either: the shard of the first key decides whether the operation is
// accepted. If it is closed it refuses the operation, and Close finds every operation that it has
// accepted before.
//
// With [WithFirstInFirstOut] a walk in order over each key is the second try;
// it comes later than the link, too.
func (p *DelayedOperationPurgatory[K]) registerHeld(m *machine.Machine, timeout time.Duration, waits []watchers.Wait[K], tried bool) (completed bool, err error) {
	first := p.watchers.Shard(waits[0].Hash)
	inLine := p.inLine(waits)
	deep := (p.chained.Load() || sched.Picks(unsafe.Pointer(m), 512)) && p.tooDeep()
	watched, over := false, false
	defer func() {
		if !over { // a TryComplete has panicked, or has called runtime.Goexit
			completed, err = p.abandon(first, m, timeout, waits, watched, recover())
		}
	}()
	if !tried && !deep && (!inLine || !p.othersWait(waits)) && m.Try() {
		over = true
		return p.pass(first, m, waits[0].Key)
	}
	if err = p.watch(first, m, timeout, waits); err != nil {
		over = true
		return false, err
	}
	watched = true
	var end machine.Outcome
	if deep {
		end = p.release(m)
	} else {
		var t tries[K]
		end, _ = p.ask(m, !inLine, &t)
	}
	over = true
	switch {
	case end != machine.Pending:
		// The callbacks of an operation that has expired never run on the goroutine that registers.
		completed = end != machine.Expired
		p.endOne(first, m, end, nil, !completed)
	case deep:
		p.signalAll(waits)
	case inLine:
		completed = p.checkLines(waits, m)
	}
	return completed, nil
}

// abandon goes on where a TryComplete has panicked with v, or, if v is nil, has called runtime.Goexit: that is
// no yes. If the second try is still to come, a worker makes it after a Goexit.
func (p *DelayedOperationPurgatory[K]) abandon(first *watchers.Shard[K], m *machine.Machine, timeout time.Duration, waits []watchers.Wait[K], watched bool, v any) (completed bool, err error) {
	if v != nil { // the panic is reported at the end, because the handler is user code, and may block
		defer p.records.Recovered(v, m, "TryComplete", waits[0].Key)()
		if !watched {
			return p.registerHeld(m, timeout, waits, true)
		}
	}
	if !watched && p.watch(first, m, timeout, waits) != nil {
		return false, nil // to nobody
	}
	if end := p.release(m); end != machine.Pending {
		completed = v != nil && end != machine.Expired
		p.endOne(first, m, end, nil, !completed)
	} else if !watched {
		p.signalAll(waits)
	}
	return completed, nil
}

// signalAll has workers check the keys.
func (p *DelayedOperationPurgatory[K]) signalAll(waits []watchers.Wait[K]) {
	for _, w := range waits {
		p.signal(w.Key, w.Hash, EveryPosition, p.inLine(waits))
	}
}

// tooDeep reports whether a registration must not try its operation on this stack: a TryComplete may register the next
// operation, whose TryComplete registers the next. A registration enters no gate, which would tell, because
// the goroutine that registers an operation and the one that ends it would pass the gate's memory to and
// fro. So one in 512 looks at its stack, as sched.Picks picks it, and all do once one has found such a chain:
// each registration that goes on behind a chain makes a second try, which may begin another one. See
// docs/decisions.md#one-registration-in-512-looks.
func (p *DelayedOperationPurgatory[K]) tooDeep() bool {
	deep, inTry := machine.Nesting()
	if deep && inTry && !p.chained.Load() {
		p.chained.Store(true)
	}
	return deep && inTry
}

// inLine reports whether operations on these keys wait in line. Those that wait without a key do not.
func (p *DelayedOperationPurgatory[K]) inLine(waits []watchers.Wait[K]) bool {
	return p.cfg.firstInFirstOut && waits[0].Hash != p.watchers.NoKey
}

// othersWait reports whether an operation waits for one of these keys. One that is in line has to
// wait behind it then.
func (p *DelayedOperationPurgatory[K]) othersWait(waits []watchers.Wait[K]) bool {
	return slices.ContainsFunc(waits, func(w watchers.Wait[K]) bool {
		return p.watchers.Shard(w.Hash).Waiting(w.Key, w.Hash) > 0
	})
}

// checkLines tries those that wait for the keys in order, the caller's own operation m among them. It
// reports whether it has ended m.
func (p *DelayedOperationPurgatory[K]) checkLines(waits []watchers.Wait[K], m *machine.Machine) (completed bool) {
	i := 0
	defer func() { // after a runtime.Goexit in a walk, workers check the other keys
		p.signalAll(waits[i:])
	}()
	for i < len(waits) {
		w := waits[i]
		i++
		completed = p.checkInOrder(w.Key, w.Hash, m).newcomerToo || completed
	}
	return completed
}

// pass ends an operation whose condition the first try has met. If the purgatory has
// closed meanwhile, pass gives it back: Shutdown may have returned, after which no callback
// runs.
func (p *DelayedOperationPurgatory[K]) pass(first *watchers.Shard[K], m *machine.Machine, key K) (completed bool, err error) {
	if !first.Pass(machine.Satisfied) {
		return false, p.giveBack(m, false, ErrClosed, "%s", observe.Kind(m.Operation()))
	}
	deep, _ := p.enter(first, unsafe.Pointer(m))
	p.wishes.Settle([]*machine.Machine{m}, []machine.Outcome{machine.Satisfied}, nil)
	p.answerOrHand(first, m, machine.Satisfied, key, deep)
	return true, nil
}

// watch schedules the timeout of m and links it under all its keys; first is the shard of the first. If it returns an
// error, the operation is not accepted, and the caller does not hold it any more.
//
// The timer comes first, because it can refuse, and an operation that is in a list is
// accepted. If the timeout passes before the registration is over, the timer sets a
// wish.
func (p *DelayedOperationPurgatory[K]) watch(first *watchers.Shard[K], m *machine.Machine, timeout time.Duration, waits []watchers.Wait[K]) error {
	if !p.takePlace() {
		return p.giveBack(m, false, ErrFull, "%d operations are pending", p.cfg.maxPending)
	}
	now := p.timer.Now()
	if now < 0 { // in a bubble, on a clock outside: a worker from outside must not run what is registered here
		p.crew.pool.Dismiss()
	}
	if timeout != NoTimeout { // else the first Extend adds the entry
		if !p.reaping.off.Load() {
			p.startReaper()
		}
		if err := p.timer.AddAt(entryOf(m), now, timer.Deadline(now, timeout)); err != nil {
			p.freePlaces(1)
			kind := ErrClosed
			if errors.Is(err, timer.ErrFull) {
				kind = ErrFull
			}
			return p.giveBack(m, false, kind, "%w", err)
		}
	}
	m.SetStart(now)
	if refused := first.Watch(m, 0, &waits[0]); refused != watchers.Accepted {
		return p.unwatch(m, refused, &waits[0])
	}
	for i := 1; i < len(waits); i++ {
		p.watchers.Shard(waits[i].Hash).Watch(m, i, &waits[i]) // only the first key's shard refuses
	}
	return nil
}

// unwatch gives back an operation that is in the timer and was refused by the shard of its first key.
func (p *DelayedOperationPurgatory[K]) unwatch(m *machine.Machine, refused watchers.Refusal, w *watchers.Wait[K]) error {
	// If Cancel fails, a worker of the timer has claimed the entry and may still use it, unless Stop of the
	// timer has cancelled it.
	spent := !p.timer.Cancel(entryOf(m)) && p.timer.DeadlineOf(entryOf(m)) != 0
	p.freePlaces(1)
	if refused == watchers.KeyFull {
		return p.giveBack(m, spent, ErrFull, "%d operations wait for key %s", p.cfg.maxPendingPerKey, observe.Key(w.Key))
	}
	return p.giveBack(m, spent, ErrClosed, "%s", observe.Kind(m.Operation()))
}

// giveBack gives the operation back, which is in no list, and returns the error of its registration. spent
// reports that a worker of the timer may still use the operation's entry.
func (p *DelayedOperationPurgatory[K]) giveBack(m *machine.Machine, spent bool, kind error, format string, args ...any) error {
	p.wishes.GiveBack(m, spent)
	return p.refuse(kind, format, args...)
}

// register is TryCompleteElseWatchAt, or TryCompleteElseWatch if at is empty.
func (p *DelayedOperationPurgatory[K]) register(op operation.Operation, timeout time.Duration, keys []K, at []KeyPosition[K]) (completed bool, err error) {
	n := len(keys) + len(at)
	if p.refuses(n, 0) && (observe.WaitsIn(op) == "" || p.refuses(n, timeout)) {
		return false, p.refusal(op, n)
	}
	var m *machine.Machine
	defer func() {
		if m == nil { // op is nil, or the promoted method has dereferenced a nil pointer
			_ = recover()
			err = p.refusal(op, n)
		}
	}()
	m = machine.Of(op)
	if timeout > 0 && timeout < p.tick {
		p.hasty(timeout)
	}
	var set keySet[K]
	waits := set.fill(p, keys, at)
	if !m.Begin(op, len(waits), p.id) {
		return false, p.refuse(ErrUsed, "%T was submitted before%s", op, p.elsewhere(m))
	}
	completed, err = p.registerHeld(m, timeout, waits, false)
	set.release(p)
	return completed, err
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
		waits[0].Position, waits[0].Hash = AnyPosition, p.watchers.NoKey
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
