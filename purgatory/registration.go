package purgatory

import (
	"errors"
	"hash/maphash"
	"time"

	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

func (p *Purgatory[K]) submit(op operation.Operation, timeout time.Duration, keys []K, at []KeyPosition[K]) (completed bool, err error) {
	if len(keys) == 1 && len(at) == 0 && keys[0] == keys[0] { //nolint:gocritic // as in waits, whose result would be another copy
		one := [1]watchers.Wait[K]{{Key: keys[0], Position: AnyPosition, Hash: maphash.Comparable(p.watchers.Seed(), keys[0])}}
		return p.enroll(op, timeout, one[:], false)
	}
	var few [fewKeys]watchers.Wait[K]
	waits, err := p.waits(few[:], keys, at)
	if err != nil {
		return false, err
	}
	return p.enroll(op, timeout, waits, false)
}

// enroll registers op, or ends it at once. With tried, the caller has tried its condition in vain. The goroutine is
// the operation's holder until it is in the timer and in every list, and has been tried again: others set marks, which
// the holder sees at the end.
//
// No wake-up is lost:
//
//  1. A goroutine that changes state does so before its check looks for operations.
//  2. If the operation was linked under the key by then, the check finds it,
//     and either tries it or sets a mark.
//  3. If not, the operation is linked later, and the second try comes later still:
//     it sees the change.
//
// Closing is not lost either: the shard of the first key decides whether the operation is accepted, and Close finds
// every operation that it has accepted.
func (p *Purgatory[K]) enroll(op operation.Operation, timeout time.Duration, waits []watchers.Wait[K], tried bool) (completed bool, err error) {
	if p.Closed() {
		return false, p.refusal(ErrClosed, "%T", op)
	}
	var m *machine.Machine
	over := false
	defer func() {
		if !over {
			completed, err = p.unwind(op, m, timeout, waits, recover())
		}
	}()
	own := machine.Operation(op) // a conversion costs a look-up
	m = machine.Of(own)
	switch {
	case !m.Begin(own, len(waits), p.id):
		over = true
		return false, p.refusal(ErrUsed, "%T was submitted before", op)
	case !tried && m.Try():
		over = true
		return p.pass(m, &waits[0])
	}
	if err = p.watch(m, timeout, waits); err != nil {
		over = true
		p.refuse(m)
		return false, err
	}
	end := m.Try() || !m.ReleaseUnmarked() && p.letGo(m)
	over = true // before a callback may call runtime.Goexit
	return end && p.endRegistered(m), nil
}

// unwind goes on after a TryComplete of op, which is being registered, has panicked with v, or has called
// runtime.Goexit, if v is nil. Neither is a yes. After a Goexit in the first try op is refused: there is nobody to
// tell. After a panic in the first try it is watched, and a walk makes the second one. Without a machine, op is nil,
// or embeds a nil pointer.
func (p *Purgatory[K]) unwind(op operation.Operation, m *machine.Machine, timeout time.Duration, waits []watchers.Wait[K], v any) (completed bool, err error) {
	if m == nil {
		return false, p.refusal(ErrNilOperation, "%T is nil, or embeds a nil pointer: embed operation.DelayedOperation by value", op)
	}
	w := &waits[0]
	if v == any(sched.ErrBorder) { // of the timer
		p.refuse(m)
		panic(v)
	} else if v != nil {
		p.records.Panic(v, op, "TryComplete", w.Key)
	}
	if m.Start() < 0 { // it is not watched
		if v != nil {
			err = p.watch(m, timeout, waits)
			p.signal(w.Key, w.Hash, EveryPosition)
		}
		if v == nil || err != nil {
			p.refuse(m)
			return false, err
		}
	}
	return p.release(m) && p.endRegistered(m), nil
}

// endRegistered ends m, and reports whether its callbacks have run: not those of one that has expired, which run on a
// worker.
func (p *Purgatory[K]) endRegistered(m *machine.Machine) (completed bool) {
	completed = m.EndsAs() != machine.Expired
	p.endOne(m, nil, !completed)
	return completed
}

func (p *Purgatory[K]) refuse(m *machine.Machine) {
	m.Refuse()
	p.causes.take(m)
}

// pass ends an operation whose condition the first try has met, or refuses it: no callback runs once Shutdown has
// returned.
func (p *Purgatory[K]) pass(m *machine.Machine, w *watchers.Wait[K]) (completed bool, err error) {
	first := p.watchers.Shard(w.Hash)
	var visit watchers.Visit[K]
	ok := false
	if h := p.cfg.hook; h == nil || !h.Refuse() {
		visit, ok = first.Pass(machine.Satisfied, w.Key, m)
	}
	if !ok {
		p.refuse(m)
		return false, p.refusal(ErrClosed, "%T", m.Operation())
	}
	if m.Settle(nil) {
		p.causes.take(m)
	}
	e := ending[K]{p: p, shard: first, key: w.Key, first: m, visit: visit}
	e.run()
	return true, nil
}

// watch schedules the timeout of m and links it under all its keys. If it returns an error, the operation is in no
// list. The timer comes first: it can refuse, and an operation that is in a list is accepted. If the timeout passes
// meanwhile, the timer sets a wish.
func (p *Purgatory[K]) watch(m *machine.Machine, timeout time.Duration, waits []watchers.Wait[K]) error {
	now := p.now()
	if !p.takePlace() {
		return p.refusal(ErrFull, "%d operations are pending", p.cfg.maxPending)
	}
	if timeout != NoTimeout { // else the first Extend adds the entry
		if err := p.entries.AddAt(entryOf(m), now, timer.Deadline(now, timeout)); err != nil {
			p.freePlace()
			kind := ErrClosed
			if errors.Is(err, timer.ErrFull) {
				kind = ErrFull
			}
			return p.refusal(kind, "%w", err)
		}
		if !p.reaping.off.Load() {
			p.startReaper()
		}
	}
	m.SetStart(now)
	first := p.watchers.Used(waits[0].Hash)
	if first == nil {
		first = p.watchers.Shard(waits[0].Hash)
	}
	if !first.Watch(m, m.First(), &waits[0]) {
		m.SetStart(-1)               // for unwind: a key's String may call runtime.Goexit below
		p.entries.Cancel(entryOf(m)) // if a worker of the timer has claimed it, that worker finds that m has ended
		p.freePlace()
		if p.cfg.maxPendingPerKey > 0 && !p.Closed() {
			return p.refusal(ErrFull, "%d operations wait for key %s", p.cfg.maxPendingPerKey, observe.Key(waits[0].Key))
		}
		return p.refusal(ErrClosed, "%T", m.Operation())
	}
	if len(waits) > 1 {
		extra := m.MakeExtra()
		for i := range extra {
			w := &waits[i+1]
			p.watchers.Shard(w.Hash).Watch(m, &extra[i], w) // only the first key's shard refuses
		}
	}
	return nil
}

// now returns the time on the timer's clock. It panics beyond the border of a synctest bubble.
func (p *Purgatory[K]) now() time.Duration { return p.entries.Here() }

func (p *Purgatory[K]) takePlace() bool {
	return p.cfg.maxPending == noBound || bounded.Increment(&p.places, int64(p.cfg.maxPending))
}

func (p *Purgatory[K]) freePlace() {
	if p.cfg.maxPending != noBound {
		p.places.Add(-1)
	}
}

const fewKeys = 4 // fit on the stack of the registering goroutine

// waits copies keys and at, with their hashes, into few if they fit: TryComplete may write to the caller's slice. It
// panics for a key that cannot be hashed, before anything has changed.
func (p *Purgatory[K]) waits(few []watchers.Wait[K], keys []K, at []KeyPosition[K]) ([]watchers.Wait[K], error) {
	n := len(keys) + len(at)
	if len(keys) == 1 && n == 1 && keys[0] == keys[0] { //nolint:gocritic // the usual case, and no NaN
		few[0] = watchers.Wait[K]{Key: keys[0], Position: AnyPosition, Hash: maphash.Comparable(p.watchers.Seed(), keys[0])}
		return few[:1], nil
	}
	switch {
	case n == 0:
		return nil, p.refusal(ErrNoKeys, "an operation needs a key, under which a check finds it")
	case n > operation.MaxKeys:
		return nil, p.refusal(ErrTooManyKeys, "%d, the maximum is %d", n, operation.MaxKeys)
	case n > len(few):
		few = make([]watchers.Wait[K], n)
	}
	waits, seed := few[:n], p.watchers.Seed()
	for i := range waits {
		w := &waits[i]
		if w.Position = AnyPosition; i < len(keys) {
			w.Key = keys[i]
		} else {
			w.Key, w.Position = at[i-len(keys)].Key, at[i-len(keys)].Position
		}
		if w.Key != w.Key { //nolint:gocritic // as a NaN is
			return nil, p.refusal(ErrNoKeys, "key %s is not equal to itself, so that no check would find it", observe.Key(w.Key))
		}
		w.Hash = maphash.Comparable(seed, w.Key)
	}
	return waits, nil
}
