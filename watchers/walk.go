package watchers

import (
	"reflect"

	"github.com/delayedop/purgatory/internal/machine"
)

const maxAgain = 8

// Ask asks for tries of those that wait for a key, up to a position. If no walk over the key is under way, it begins
// one, or without walk, as for a signal, queues the key for a worker. v is nil if there is nobody to try. awaited:
// operations wait for the key.
//
// A walk goes in the order of the list. It reads a few in each hold of the shard's lock, and the caller tries them with
// none held. A key has one walk that tries at a time, and one cursor, before the operation that comes next; whoever
// unlinks that operation moves the cursor on. See docs/internals/decisions.md#one-walk-for-each-key.
//
//  1. A check adds what it asks for to the key's asked, under the shard's lock. If a walk is under way, the
//     check is over. Otherwise it takes asked, sets walking, and its walk begins at the head.
//  2. In the hold of the lock that would clear walking, the walk looks at asked: if somebody has asked
//     meanwhile, it begins at the head again. After maxAgain times it queues the key, and a worker goes on.
//  3. So no check is lost: state has changed before asked is set, and asked is looked at before walking is
//     cleared. And each operation is visited before one is visited again.
//  4. Before callbacks run, the walk pauses: it adds what it has not visited to asked, and clears walking. A
//     walk that begins meanwhile takes asked over. If others had asked before the pause, it queues the key,
//     since the callbacks may block.
//  5. A walk that begins, or a key that leaves the map, changes the list's number. A paused walk goes on only
//     if it is still its own.
func (w *Watchers[K]) Ask(at Wait[K], walk bool) (v *Visit[K], awaited bool) {
	s := w.used(at.Hash)
	if s == nil {
		return nil, false
	}
	s.lock()
	l := s.mu.keys.find(at.Key, at.Hash)
	if !walk {
		s.mu.signals++
	}
	if l != nil {
		l.asked.add(at.Position)
		switch {
		case l.walking:
		case walk:
			v = l.beginLocked()
		default:
			s.queueLocked(l)
		}
	}
	s.mu.Unlock()
	return v, l != nil
}

// beginLocked returns nil if there is nobody to try.
func (l *keyList[K]) beginLocked() *Visit[K] {
	if l.queued { // the walk does what was asked for
		l.shard.unqueueLocked(l)
	}
	l.walking = true
	v := l.shard.enterLocked(l.key, l.hash)
	v.list, v.again = l, 0
	v.fromHead()
	if v.readLocked(); v.N == 0 {
		v.taken.Store(false)
		return nil
	}
	return v
}

// fromHead takes what was asked for, and puts the cursor before the first operation. One that comes later needs no
// visit: its registration tries it. Among positions it may stand in the way, so visits are bounded.
func (v *Visit[K]) fromHead() {
	l := v.list
	l.number++
	v.number, v.Position, v.rest = l.number, l.asked.upTo, l.Len()
	l.asked, v.placed = asked{}, l.ordered != nil
	if v.placed {
		l.ordered.trim(&l.List)
		v.rest *= 2
	}
	l.Start()
}

// Next takes those of Group that end out of their lists, and reads the next ones, unless the walk is over, or is to
// pause.
func (v *Visit[K]) Next(ended []*machine.Machine, tried int, pause bool) {
	l, s, others := v.list, v.shard, false
	s.lock()
	s.mu.tries += int64(tried)
	s.mu.wasted += int64(tried - len(ended))
	if len(ended) > 0 {
		others = s.leaveLocked(ended)
		v.runsLocked(ended[0])
	}
	v.N = 0
	switch {
	case l.number != v.number: // the key has left the map
		v.list = nil
	case pause:
		asked := l.asked.any
		l.asked.add(v.Position)
		l.walking = false
		if asked {
			s.queueLocked(l)
		}
	default:
		v.readLocked()
	}
	s.mu.Unlock()
	leaveOthers[K](ended, others)
	if v.N == 0 { // a callback may block: the visit must not keep operations in memory
		v.Group = machine.Group{}
	}
}

// Resume goes on with a walk when callbacks have run. Otherwise the visit is over.
func (v *Visit[K]) Resume() (on bool) {
	if l := v.list; l != nil {
		s := v.shard
		s.lock()
		if l.number == v.number && !l.queued { // else another goroutine goes on, or is about to
			l.asked, l.walking = asked{}, true
			v.readLocked()
		}
		s.mu.Unlock()
	}
	if on = v.N > 0; !on {
		v.list = nil
		v.taken.Store(false) // from here on it may be another goroutine's
	}
	return on
}

func (v *Visit[K]) readLocked() {
	l := v.list
	for {
		if v.N = l.Read(v.Position, v.Group[:min(v.shard.all.group, v.rest)]); v.N > 0 {
			v.rest -= v.N
			v.runsLocked(v.Group[0])
			return
		}
		if v.placed && !l.AtEnd(v.Position) { // operations keep arriving, perhaps before others
			l.asked.add(v.Position)
			v.again = maxAgain
		}
		if !l.asked.any || v.again == maxAgain {
			break
		}
		v.again++
		v.fromHead()
	}
	l.walking = false
	if v.list = nil; l.asked.any {
		l.shard.queueLocked(l)
	}
}

// leaveLocked takes operations that end out of the lists of s, and counts them. others: some may stand in
// other lists, too.
func (s *shard[K]) leaveLocked(machines []*machine.Machine) (others bool) {
	if s.waited != nil {
		now := s.all.config.Now()
		for _, m := range machines {
			s.waited[m.EndsAs()].Add(now-m.Start(), 1)
		}
	}
	for _, m := range machines {
		s.mu.ended[m.EndsAs()]++
		if w := m.First(); listOf[K](w).shard == s {
			s.unlinkLocked(w)
		}
		for at := m.Extra(); *at != nil; others = true {
			if x := *at; listOf[K](&x.Watch).shard == s {
				*at = x.Next
				s.unlinkLocked(&x.Watch)
			} else {
				at = &x.Next
			}
		}
	}
	return others
}

// leaveOthers takes operations, which have left the lists of one shard, out of the others', if there are others.
func leaveOthers[K comparable](machines []*machine.Machine, others bool) {
	for i := 0; others && i < len(machines); i++ {
		leave[K](machines[i].First())
		for at := machines[i].Extra(); *at != nil; {
			x := *at
			*at, x.Next = x.Next, nil // before another operation has x
			leave[K](&x.Watch)
		}
	}
}

// Leave takes m, which ends and whose callbacks run next, out of its lists. unchecked: it expires, and no walk has come
// to it, nor is about to.
func (w *Watchers[K]) Leave(m *machine.Machine) (v *Visit[K], unchecked bool) {
	l := listOf[K](m.First())
	s := l.shard
	s.lock()
	v = s.enterLocked(l.key, l.hash).runsLocked(m)
	if m.EndsAs() == machine.Expired {
		if s.mu.last == nil {
			s.mu.last = new([2]Seen[K])
		}
		last := &s.mu.last[0]
		if unchecked = !m.Checked() && !l.walking && !l.asked.any; unchecked {
			last = &s.mu.last[1]
			s.mu.unchecked++
		}
		at := m.Entry().Deadline()
		*last = Seen[K]{l.key, reflect.TypeOf(m.Operation()), at, at - m.Start(), l.number - l.before}
	}
	ops := []*machine.Machine{m}
	others := s.leaveLocked(ops)
	s.mu.Unlock()
	leaveOthers[K](ops, others)
	return v, unchecked
}

// LastExpiries returns the last expiries of each shard: of an operation to which a check has come, and of another one. A
// Kind is nil if there is none.
func (w *Watchers[K]) LastExpiries() (checked, unchecked []Seen[K]) {
	for s := range w.shards() {
		s.lock()
		if s.mu.last != nil {
			checked, unchecked = append(checked, s.mu.last[0]), append(unchecked, s.mu.last[1])
		}
		s.mu.Unlock()
	}
	return checked, unchecked
}

// Claim calls claim, with the shard's lock held, for the operations that wait for the key of at, until out is full of
// those for which it returned true. These leave their lists. It returns their number: if out is not full, it has come
// to all. The shard of the key has been used.
func (w *Watchers[K]) Claim(at Wait[K], claim func(*machine.Machine) bool, out []*machine.Machine) (n int) {
	s, others := w.used(at.Hash), false
	s.lock()
	if l := s.mu.keys.find(at.Key, at.Hash); l != nil {
		for w := l.First(); w != nil && n < len(out); w = l.Next(w) {
			if m := w.Machine; m != nil && claim(m) { // nil: a mark
				out[n] = m
				n++
			}
		}
		others = s.leaveLocked(out[:n])
	}
	s.mu.Unlock()
	leaveOthers[K](out[:n], others)
	return n
}
