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

// registration is an operation on its way from the call that submits it to the lists, on the stack of that call. So are
// the waits, which are no field: what fields refer to is allocated.
type registration[K comparable] struct {
	p       *Purgatory[K]
	op      operation.Operation
	m       *machine.Machine // of op, as soon as it is known
	timeout time.Duration
	over    bool // no code of the user's is to run
}

func (p *Purgatory[K]) submit(op operation.Operation, timeout time.Duration, keys []K, at []KeyPosition[K]) (completed bool, err error) {
	var few [fewKeys]watchers.Wait[K]
	waits, err := p.waits(few[:], keys, at)
	if err != nil {
		return false, err
	}
	return (&registration[K]{p: p, op: op, timeout: timeout}).enroll(waits, false)
}

// enroll registers the operation, or ends it at once. With tried, the caller has tried its condition in vain. The
// goroutine is the operation's holder until it is in the timer and in every list, and has been tried again: others set
// marks, which the holder sees at the end.
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
func (r *registration[K]) enroll(waits []watchers.Wait[K], tried bool) (completed bool, err error) {
	p := r.p
	if p.Closed() {
		return false, p.refusal(ErrClosed, "%T", r.op)
	}
	defer func() {
		if !r.over {
			completed, err = r.unwind(waits, recover())
		}
	}()
	own := machine.Operation(r.op) // a conversion costs a look-up
	m := machine.Of(own)
	r.m = m
	switch {
	case !m.Begin(own, p.id):
		r.over = true
		return false, p.refusal(ErrUsed, "%T was submitted before", r.op)
	case !tried && m.Try():
		r.over = true
		return r.pass(&waits[0])
	}
	if err = r.watch(waits); err != nil {
		r.over = true
		p.refuse(m)
		return false, err
	}
	end := m.Try() || !m.ReleaseUnmarked() && p.letGo(m, waits[0])
	r.over = true // before a callback may call runtime.Goexit
	return end && p.endRegistered(m), nil
}

// unwind goes on after a TryComplete has panicked with v, or has called runtime.Goexit, if v is nil. Neither is a yes.
// After a Goexit in the first try the operation is refused: there is nobody to tell. After a panic in the first try it
// is watched, and a walk makes the second one. Without a machine, it is nil, or embeds a nil pointer.
func (r *registration[K]) unwind(waits []watchers.Wait[K], v any) (completed bool, err error) {
	p, m, w := r.p, r.m, &waits[0]
	if m == nil {
		return false, p.refusal(ErrNilOperation, "%T is nil, or embeds a nil pointer: embed operation.DelayedOperation by value", r.op)
	}
	if v == any(sched.ErrBorder) { // of the timer
		p.refuse(m)
		panic(v)
	} else if v != nil {
		p.records.Panic(v, r.op, "TryComplete", w.Key)
	}
	if m.Start() < 0 { // it is not watched
		if v != nil {
			err = r.watch(waits)
			p.signal(*w)
		}
		if v == nil || err != nil {
			p.refuse(m)
			return false, err
		}
	}
	return p.release(m, *w) && p.endRegistered(m), nil
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
func (r *registration[K]) pass(first *watchers.Wait[K]) (completed bool, err error) {
	p, m := r.p, r.m
	e := ending[K]{p: p, first: m}
	if h := p.cfg.hook; h == nil || !h.Refuse() {
		e.visit = p.watchers.Enter(*first, m, true)
	}
	if e.visit == nil {
		p.refuse(m)
		return false, p.refusal(ErrClosed, "%T", r.op)
	}
	if m.Settle(nil) {
		p.causes.take(m)
	}
	e.run()
	return true, nil
}

// watch schedules the timeout and links the operation under all its keys. If it returns an error, the operation is in
// no list. The timer comes first: it can refuse, and an operation that is in a list is accepted. If the timeout passes
// meanwhile, the timer sets a wish.
func (r *registration[K]) watch(waits []watchers.Wait[K]) error {
	p, m, first := r.p, r.m, &waits[0]
	now := p.entries.Here() // which panics beyond the border of a synctest bubble
	if p.cfg.maxPending != noBound && !bounded.Increment(&p.places, int64(p.cfg.maxPending)) {
		return p.refusal(ErrFull, "%d operations are pending", p.cfg.maxPending)
	}
	if r.timeout != NoTimeout { // else the first Extend adds the entry
		if err := p.entries.AddAt(entryOf(m), now, timer.Deadline(now, r.timeout)); err != nil {
			p.freePlace()
			kind := ErrClosed
			if errors.Is(err, timer.ErrFull) {
				kind = ErrFull
			}
			return p.refusal(kind, "%w", err)
		}
		p.startReaper()
	}
	m.SetStart(now)
	if !p.watchers.Watch(m, first) {
		m.SetStart(-1)               // for unwind: a key's String may call runtime.Goexit below
		p.entries.Cancel(entryOf(m)) // if a worker of the timer has claimed it, that worker finds that m has ended
		p.freePlace()
		p.refuse(m) // likewise
		if p.cfg.maxPendingPerKey > 0 && !p.Closed() {
			return p.refusal(ErrFull, "%d operations wait for key %s", p.cfg.maxPendingPerKey, observe.Key(first.Key))
		}
		return p.refusal(ErrClosed, "%T", r.op)
	}
	for i := len(waits) - 1; i > 0; i-- { // so that the chain of watches is in the order of the keys
		p.watchers.Watch(m, &waits[i]) // only the first key's shard refuses
	}
	return nil
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
	switch {
	case len(keys) == 1 && n == 1 && keys[0] == keys[0]: //nolint:gocritic // the usual case, and no NaN
		few[0] = watchers.Wait[K]{Key: keys[0], Position: AnyPosition, Hash: maphash.Comparable(p.seed, keys[0])}
		return few[:1], nil
	case n == 0:
		return nil, p.refusal(ErrNoKeys, "an operation needs a key, under which a check finds it")
	case n > len(few):
		few = make([]watchers.Wait[K], n)
	}
	waits := p.hashed(few[:0], AnyPosition, keys)
	for _, k := range at {
		waits = append(waits, watchers.Wait[K]{Key: k.Key, Position: k.Position, Hash: maphash.Comparable(p.seed, k.Key)})
	}
	for i := range waits {
		if key := waits[i].Key; key != key { //nolint:gocritic // as a NaN is
			return nil, p.refusal(ErrNoKeys, "key %s is not equal to itself, so that no check would find it", observe.Key(key))
		}
	}
	return waits, nil
}
