package watchers

import (
	"reflect"

	"github.com/delayedop/purgatory/internal/machine"
)

// Walk is a walk over the operations of a key, in the order of the list. It reads a few in each hold of the shard's
// lock, and the caller tries them with none held. It is not safe for concurrent use. See
// docs/internals/decisions.md#one-walk-for-each-key.
//
// A key has one walk that tries at a time, and one cursor, before the operation that comes next; whoever unlinks that
// operation moves the cursor on.
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
type Walk[K comparable] struct {
	Visit  *Visit[K]   // of its shard, which Resume ends
	list   *keyList[K] // nil: it is over
	number uint32      // of the list, when the walk began
	again  int         // how often it has begun at the head again
	upTo   int64
	rest   int  // operations that it may still visit
	placed bool // there were positions when the pass began
}

const maxAgain = 8

// Begin asks for tries up to a position, and begins a walk, if none is under way. It returns how many it has read into
// out. The shard is Used.
func (w *Watchers[K]) Begin(walk *Walk[K], key K, hash uint64, upTo int64, out []*machine.Machine) (n int) {
	s := w.used(hash)
	s.lock()
	if l := s.mu.keys.find(key, hash); l != nil {
		l.asked.add(upTo)
		if !l.walking {
			n = walk.beginLocked(l, out)
		}
	}
	s.mu.Unlock()
	return n
}

func (w *Walk[K]) beginLocked(l *keyList[K], out []*machine.Machine) (n int) {
	l.walking = true
	w.list = l
	w.fromHead()
	return w.readLocked(out)
}

// fromHead takes what was asked for, and puts the cursor before the first operation. One that comes later needs no
// visit: its registration tries it. Among positions it may stand in the way, so visits are bounded.
func (w *Walk[K]) fromHead() {
	l := w.list
	l.number++
	w.number, w.upTo, w.rest = l.number, l.asked.upTo, l.Len()
	l.asked, w.placed = asked{}, l.ordered != nil
	if w.placed {
		l.ordered.trim(&l.List)
		w.rest *= 2
	}
	l.Start()
}

// Next takes those of the tried operations that end out of their lists, and reads the next ones. It returns 0 if the
// walk is over, or is to pause.
func (w *Walk[K]) Next(ended []*machine.Machine, tried int, out []*machine.Machine, pause bool) (n int) {
	l, others := w.list, false
	s := l.shard
	s.lock()
	s.mu.tries += int64(tried)
	s.mu.wasted += int64(tried - len(ended))
	if len(ended) > 0 {
		others = s.leaveLocked(ended)
		w.Visit.runsLocked(ended[0])
	}
	switch {
	case l.number != w.number: // the key has left the map
		w.list = nil
	case pause:
		asked := l.asked.any
		l.asked.add(w.upTo)
		l.walking = false
		if asked {
			s.queueLocked(l)
		}
	default:
		n = w.readLocked(out)
	}
	s.mu.Unlock()
	leaveOthers[K](ended, others)
	return n
}

// Resume goes on with a walk when callbacks have run. It returns 0 if the walk is over.
func (w *Walk[K]) Resume(out []*machine.Machine) (n int) {
	if l := w.list; l != nil {
		s := l.shard
		s.lock()
		if l.number == w.number && !l.queued { // else another goroutine goes on, or is about to
			l.asked, l.walking = asked{}, true
			n = w.readLocked(out)
		}
		s.mu.Unlock()
	}
	w.Visit.count()
	if n == 0 {
		w.Visit.taken.Store(false)
	}
	return n
}

func (w *Walk[K]) readLocked(out []*machine.Machine) (n int) {
	l := w.list
	for {
		if n = l.Read(w.upTo, out[:min(len(out), w.rest)]); n > 0 {
			w.rest -= n
			if w.Visit == nil {
				w.Visit = l.shard.enterLocked(l.key, l.hash)
			}
			w.Visit.runsLocked(out[0])
			return n
		}
		if w.placed && !l.AtEnd(w.upTo) { // operations keep arriving, perhaps before others
			l.asked.add(w.upTo)
			w.again = maxAgain
		}
		if !l.asked.any || w.again == maxAgain {
			break
		}
		w.again++
		w.fromHead()
	}
	l.walking = false
	if w.list = nil; l.asked.any {
		l.shard.queueLocked(l)
	}
	return 0
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
		extra := m.Extra()
		if extra == nil {
			s.unlinkLocked(m.First())
			continue
		}
		others = true
		if listOf[K](m.First()).shard == s {
			s.unlinkLocked(m.First())
		}
		for i := range extra {
			if w := &extra[i]; listOf[K](w).shard == s {
				s.unlinkLocked(w)
			}
		}
	}
	return others
}

// leaveOthers takes operations, which have left the lists of one shard, out of the others', if there are others.
func leaveOthers[K comparable](machines []*machine.Machine, others bool) {
	for i := 0; others && i < len(machines); i++ {
		m := machines[i]
		leave[K](m.First())
		for extra, j := m.Extra(), 0; j < len(extra); j++ {
			leave[K](&extra[j])
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
		last := &s.mu.checkedLast
		if unchecked = !m.Checked() && !l.walking && !l.asked.any; unchecked {
			last = &s.mu.uncheckedLast
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
		checked, unchecked = append(checked, s.mu.checkedLast), append(unchecked, s.mu.uncheckedLast)
		s.mu.Unlock()
	}
	return checked, unchecked
}

// Claim calls claim, with the shard's lock held, for the operations that wait for key, until out is full of those for
// which it returned true. These leave their lists. It returns their number: if out is not full, it has come to all. The
// shard is Used.
func (w *Watchers[K]) Claim(key K, hash uint64, claim func(*machine.Machine) bool, out []*machine.Machine) (n int) {
	s, others := w.used(hash), false
	s.lock()
	if l := s.mu.keys.find(key, hash); l != nil {
		for at := l.First(); at != nil && n < len(out); at = l.Next(at) {
			if m := at.Machine; m != nil && claim(m) { // nil: a mark
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
