package watchers

import (
	"reflect"
	"time"

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
	shard  *Shard[K]
	list   *keyList[K] // nil: it is over
	number uint32      // of the list, when the walk began
	again  int         // how often it has begun at the head again
	upTo   int64
	visit  Visit[K]
	rest   int  // operations that it may still visit
	placed bool // there were positions when the pass began
}

const maxAgain = 8

// Begin asks for tries up to a position, and begins a walk, if none is under way. It returns how many it has read into
// out.
func (s *Shard[K]) Begin(w *Walk[K], key K, hash uint64, upTo int64, out []*machine.Machine) (n int) {
	s.lock()
	if l := s.mu.keys.find(key, hash); l != nil {
		l.asked.add(upTo)
		if !l.walking {
			n = w.beginLocked(s, l, out)
		}
	}
	s.unlock()
	return n
}

// Shard returns the shard of the key.
func (w *Walk[K]) Shard() *Shard[K] { return w.shard }

// Visit returns the walk's visit in its shard, which Resume ends.
func (w *Walk[K]) Visit() Visit[K] { return w.visit }

func (w *Walk[K]) beginLocked(s *Shard[K], l *keyList[K], out []*machine.Machine) (n int) {
	l.walking = true
	w.shard, w.list = s, l
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

// Next takes those of the tried operations that end out of the lists, and reads the next ones. It returns 0 if the
// walk is over, or is to pause.
func (w *Walk[K]) Next(ended []*machine.Machine, tried int, out []*machine.Machine, pause bool) (n int) {
	s, l := w.shard, w.list
	s.lock()
	s.mu.tries += int64(tried)
	s.mu.wasted += int64(tried - len(ended))
	if len(ended) > 0 {
		s.leaveLocked(ended)
		w.visit.place.runsLocked(ended[0])
	}
	switch {
	case l.number != w.number: // the key has left the map
		w.list = nil
	case pause:
		others := l.asked.any
		l.asked.add(w.upTo)
		l.walking = false
		if others {
			s.queueLocked(l)
		}
	default:
		n = w.readLocked(out)
	}
	s.unlock()
	return n
}

// Resume goes on with a walk when the callbacks of so many operations have run. It returns 0 if the walk is over.
func (w *Walk[K]) Resume(answered int, out []*machine.Machine) (n int) {
	s, l := w.shard, w.list
	if l != nil {
		s.lock()
		if l.number == w.number && !l.queued { // else another goroutine goes on, or is about to
			l.asked, l.walking = asked{}, true
			n = w.readLocked(out)
		}
		s.unlock()
	}
	if n == 0 {
		s.Exit(w.visit, answered)
	} else {
		s.gate.Add(uint64(answered) << insideBits)
	}
	return n
}

func (w *Walk[K]) readLocked(out []*machine.Machine) (n int) {
	l, s := w.list, w.shard
	for {
		if n = l.Read(w.upTo, out[:min(len(out), w.rest)]); n > 0 {
			w.rest -= n
			if w.visit.Inside == 0 {
				w.visit = s.enterLocked(l.key, out[0])
			}
			w.visit.place.runsLocked(out[0])
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
		s.queueLocked(l)
	}
	return 0
}

// leaveLocked takes operations that end out of the lists of s, and counts them.
func (s *Shard[K]) leaveLocked(machines []*machine.Machine) {
	now := time.Duration(0)
	if s.waited != nil {
		now = s.all.config.Now()
	}
	for _, m := range machines {
		o := m.EndsAs()
		s.mu.counts[o]++
		if s.waited != nil {
			s.waited[o].Add(now-m.Start(), 1)
		}
		extra := m.Extra()
		if extra == nil {
			s.unlinkLocked(m.First())
			continue
		}
		if listOf[K](m.First()).shard == s {
			s.unlinkLocked(m.First())
		}
		for i := range extra {
			if w := &extra[i]; listOf[K](w).shard == s {
				s.unlinkLocked(w)
			}
		}
	}
}

// Leave is leaveLocked for one operation, in the shard of its first key, whose callbacks run next. unchecked: it
// expires, and no walk has come to it, nor is about to.
func (s *Shard[K]) Leave(m *machine.Machine) (v Visit[K], unchecked bool) {
	s.lock()
	l := listOf[K](m.First())
	v = s.enterLocked(l.key, m)
	if m.EndsAs() == machine.Expired {
		last := &s.mu.checkedLast
		if unchecked = !m.Checked() && !l.walking && !l.asked.any; unchecked {
			last = &s.mu.uncheckedLast
			s.mu.unchecked++
		}
		at := m.Entry().Deadline()
		*last = Seen[K]{l.key, reflect.TypeOf(m.Operation()), at, at - m.Start(), l.number - l.before}
	}
	s.leaveLocked([]*machine.Machine{m})
	s.unlock()
	return v, unchecked
}

// LastExpiries returns the last expiries: of an operation to which a check has come, and of another one. A Kind is nil
// if there is none.
func (s *Shard[K]) LastExpiries() (checked, unchecked Seen[K]) {
	s.lock()
	defer s.unlock()
	return s.mu.checkedLast, s.mu.uncheckedLast
}

// LeaveOthers takes m, which has left the lists of one shard, out of the others'.
func LeaveOthers[K comparable](m *machine.Machine) {
	leave[K](m.First())
	for extra, i := m.Extra(), 0; i < len(extra); i++ {
		leave[K](&extra[i])
	}
}

// Claim calls claim, with the shard's lock held, for the operations that wait for key, until out is full of those for
// which it returned true. These leave the lists of the shard. It returns their number: if out is not full, it has come
// to all.
func (s *Shard[K]) Claim(key K, hash uint64, claim func(*machine.Machine) bool, out []*machine.Machine) (n int) {
	s.lock()
	defer s.unlock()
	l := s.mu.keys.find(key, hash)
	if l == nil {
		return 0
	}
	for w := l.First(); w != nil && n < len(out); w = l.Next(w) {
		if m := w.Machine; m != nil && claim(m) { // nil: a mark
			out[n] = m
			n++
		}
	}
	s.leaveLocked(out[:n])
	return n
}
