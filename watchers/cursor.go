package watchers

import (
	"sync"

	"github.com/delayedop/purgatory/internal/machine"
)

// Cursor walks over the operations that wait for a key, a batch at a time. It does not
// hold the shard's lock between batches. It visits each operation that was linked when
// the walk began and is still linked when the walk reaches it: first the operations
// without a position, in order of arrival, then those at or below a position, in order
// of position. It may also visit operations that were linked later.
//
// Between two calls, markers in the list say where the walk stands: here stands behind
// the operations that have been visited, and end stands behind the last operation that
// was linked at the beginning. Because of end, operations that keep arriving at the end of the
// list do not make the walk endless. They need no visit, because the goroutine that
// registers an operation tries it again after it has linked it. In a list that extends beyond the
// position there is no end marker, because to find its neighbours would take a step for each of the
// operations beyond the position. The position ends the walk; if operations keep arriving
// before it, [Cursor.Overdue] does. See docs/decisions.md#a-marker-says-where-a-walk-stands.
//
// Walks pass over each other's markers. So those that stand at the same place share one, and markers between
// which no operation stands any more join one another when a walk passes over them. If here joins end, the
// walk is over.
//
// A Cursor can be used again after its walk has ended. It is not safe for concurrent use.
type Cursor[K comparable] struct {
	list *keyList[K] // nil between walks
	upTo int64
	rest int // operations to visit before the walk is overdue

	turn *keyList[K] // whose turn the walk has, see BeginTurn

	here, end *machine.Marker // nil between walks; end may be nil in a walk
}

// Locked is a key for which operations wait, with its shard locked.
type Locked[K comparable] struct{ list *keyList[K] }

// Lock locks s if operations wait for key, and reports whether they do. If so, the caller must call
// Begin or BeginTurn at once, which unlocks s.
func (s *Shard[K]) Lock(key K, hash uint64) (l Locked[K], ok bool) {
	s.mu.Lock()
	if l.list = s.mu.keys.find(key, hash); l.list == nil {
		s.unlock()
		return l, false
	}
	return l, true
}

// Begin starts a walk over the operations that wait for the key: all without a position, and
// those with a position at or below upTo. It puts the first operations into out and
// returns their number n. If more is true, the caller must call [Cursor.Next] until that
// returns false, or [Cursor.Stop].
func (l Locked[K]) Begin(c *Cursor[K], upTo int64, out []*machine.Machine) (n int, more bool) {
	n, more = l.list.begin(c, upTo, out)
	l.list.shard.unlock()
	return n, more
}

// BeginTurn is [Locked.Begin] for a walk in order over every position. Such walks over a key take
// turns: one that comes during another's turn hands its work to that one, and ok is false. So no
// operation is passed over because another walk in order is trying it: see
// docs/decisions.md#checks-in-order-take-turns. If ok is true, the caller
// must call [Cursor.EndTurn]. Without out it takes the turn, and walks nowhere.
func (l Locked[K]) BeginTurn(c *Cursor[K], out []*machine.Machine) (n int, more, ok bool) {
	defer l.list.shard.unlock()
	if l.list.turn != free {
		l.list.turn = wanted
		return 0, false, false
	}
	c.turn = l.list
	c.turn.turn, c.turn.line = taken, true
	if len(out) > 0 {
		n, more = l.list.begin(c, EveryPosition, out)
	}
	return n, more, true
}

// EndTurn ends a turn, and the walk if it has not ended. It reports whether another walk in order
// came meanwhile: then there has to be one more walk, which sees what that one was to see.
func (c *Cursor[K]) EndTurn() (again bool) {
	l := c.turn
	s := l.shard
	s.mu.Lock()
	defer s.unlock()
	if c.list != nil {
		c.endLocked()
	}
	again = l.turn == wanted
	c.turn, l.turn = nil, free
	s.dropLocked(l)
	return again
}

// begin is Begin; the caller holds the shard's lock.
func (l *keyList[K]) begin(c *Cursor[K], upTo int64, out []*machine.Machine) (n int, more bool) {
	if l.ordered != nil {
		l.ordered.trim(&l.List)
	}
	n, more = c.fillLocked(l, l.First(), upTo, out)
	if !more { // usually: no markers are needed
		return n, false
	}
	if last := l.Last(); last.Position() <= upTo {
		c.end = l.stand(last, nil)
	}
	c.list, c.upTo, c.rest = l, upTo, 2*l.Len()-n
	l.readers++
	return n, true
}

// markers holds markers that nobody uses.
var markers = sync.Pool{New: func() any { return new(machine.Marker) }}

// stand returns a marker right behind after, for one more user. old is the user's former one, which it leaves, or nil.
func (l *keyList[K]) stand(after *machine.Watch, old *machine.Marker) (m *machine.Marker) {
	switch {
	case after.Machine() == nil:
		m = after.Marker()
	case old != nil && old.Users == 1: // and so it moves
		old.Unlink()
		l.Mark(old, after.Position(), after)
		return old
	default:
		m = markers.Get().(*machine.Marker)
		l.Mark(m, after.Position(), after)
	}
	m.Users++
	leave(old)
	return m
}

// leave tells m, unless it is nil, that one of its users has gone. The last takes it out.
func leave(m *machine.Marker) {
	for m != nil {
		if m.Users--; m.Users > 0 {
			return
		}
		into := m.Into // m was one of its users
		if into == nil {
			m.Unlink()
		}
		m.Into = nil
		markers.Put(m)
		m = into
	}
}

// join has m and the markers behind it, up to the next operation or to end, join one another, and returns the one
// that is left. The one with fewer users joins the other: so the way to it stays short.
func (l *keyList[K]) join(m *machine.Marker, end *machine.Watch) *machine.Marker {
	for w := l.Next(m.Element()); w != nil && w != end && w.Machine() == nil && !w.Marker().Fixed; w = l.Next(m.Element()) {
		joining := w.Marker()
		if joining.Users > m.Users && !m.Fixed {
			m, joining = joining, m
		}
		joining.Unlink()
		joining.Into = m
		m.Users++
	}
	return m
}

// joined returns the marker that m has joined, m if none, with m's caller as its user. m may be nil.
func joined(m *machine.Marker) *machine.Marker {
	for m != nil && m.Into != nil {
		into := m.Into
		into.Users++
		leave(m)
		m = into
	}
	return m
}

// fillLocked visits the operations of l from w on until out is full. Then the walk stands before
// the next one.
func (c *Cursor[K]) fillLocked(l *keyList[K], w *machine.Watch, upTo int64, out []*machine.Machine) (n int, more bool) {
	passed := 0 // markers, one after the other
	for end := c.end.Element(); w != nil && w != end && w.Position() <= upTo; w = l.Next(w) {
		m := w.Machine()
		if m == nil {
			w = l.join(w.Marker(), end).Element()
			if passed++; passed == segment && l.ordered != nil {
				l.ordered.compact(&l.List, w)
			}
			continue
		}
		passed = 0
		if n == len(out) {
			c.here = l.stand(l.Prev(w), c.here)
			return n, true
		}
		out[n] = m
		n++
	}
	return n, false
}

// More reports whether the walk has not ended: the caller has to call [Cursor.Next] or [Cursor.Stop].
func (c *Cursor[K]) More() bool { return c.list != nil }

// Next puts the next operations into out and returns their number n. The caller must call
// it until more is false, or call [Cursor.Stop].
func (c *Cursor[K]) Next(out []*machine.Machine) (n int, more bool) {
	l := c.list
	s := l.shard
	s.mu.Lock()
	defer s.unlock()
	c.here, c.end = joined(c.here), joined(c.end)
	if c.here == c.end {
		c.endLocked()
		return 0, false
	}
	next := l.Next(c.here.Element())
	if n, more = c.fillLocked(l, next, c.upTo, out); !more {
		c.endLocked()
	}
	c.rest -= n
	return n, more
}

// Stop ends a walk whose last call of Begin or Next has returned more = true.
func (c *Cursor[K]) Stop() {
	s := c.list.shard
	s.mu.Lock()
	defer s.unlock()
	c.endLocked()
}

func (c *Cursor[K]) endLocked() {
	leave(c.here)
	leave(c.end)
	l := c.list
	c.list, c.here, c.end = nil, nil, nil
	l.readers--
	l.shard.dropLocked(l)
}

// Overdue reports whether the walk has visited twice as many operations as waited for the key
// when it began. The caller should stop it then, and begin another one elsewhere.
func (c *Cursor[K]) Overdue() bool { return c.rest < 0 }
