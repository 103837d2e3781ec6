package watchers

import "github.com/delayedop/purgatory/operation"

// Cursor walks over those who wait for a key, some at a time, without holding the
// shard's lock in between. It visits each operation that was there when it
// began and is still there when it comes by, first those without a position in
// the order in which they came, then those at or below a position in its order.
//
// Between two calls a pair of markers keeps its place: here, behind what has been
// visited, and end, behind what was there at the beginning, so that operations
// that keep coming do not keep it busy for ever. (Who comes later makes its own
// second look.) Where a position is the end, none is set: finding the place would
// cost a walk over all that stand beyond it. It is reusable, and not safe for
// concurrent use.
type Cursor[K comparable] struct {
	shard *Shard[K]
	list  *keyList[K]
	upTo  int64

	stage     stage
	here, end operation.Watch

	key  K // kept only for an observer of keys
	hash uint64
}

type stage uint8

const (
	start stage = iota
	inUnordered
	inOrdered
	done
)

// At says on which key tries will be counted, for a walk that does not Begin.
func (c *Cursor[K]) At(key K, hash uint64) { c.key, c.hash = key, hash }

// Begin puts c before those who wait for key, and at or below position upTo if
// they wait for one; it fills out and returns how many it put there. more reports
// whether Next has to be called, until it says no.
func (s *Shard[K]) Begin(c *Cursor[K], key K, hash uint64, upTo int64, out []*operation.Machine) (n int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.keys.find(key, hash)
	if l == nil {
		return 0, false
	}
	return s.beginLocked(c, l, upTo, out)
}

func (s *Shard[K]) beginLocked(c *Cursor[K], l *keyList[K], upTo int64, out []*operation.Machine) (n int, more bool) {
	if s.observer != nil {
		c.key, c.hash = l.key, l.hash
	}
	// Usually everything fits, and no marker is needed.
	if l.waiting() <= len(out) {
		for _, list := range l.lists() {
			for w := list.First(); w != nil && w.Position() <= upTo; w = list.Next(w) {
				n = put(out, n, w)
			}
		}
		return n, false
	}
	c.shard, c.list, c.upTo, c.stage = s, l, upTo, start
	l.readers++
	return c.fillLocked(out)
}

// put appends w's operation to out, if it is one.
func put(out []*operation.Machine, n int, w *operation.Watch) int {
	if m := w.Machine(); m != nil {
		out[n] = m
		n++
	}
	return n
}

// Next fills out with the next operations. It must be called until more is false.
func (c *Cursor[K]) Next(out []*operation.Machine) (n int, more bool) {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return c.fillLocked(out)
}

func (c *Cursor[K]) fillLocked(out []*operation.Machine) (n int, more bool) {
	l := c.list
	for c.stage != done {
		switch c.stage {
		case start:
			c.enterLocked(&l.unordered, inUnordered)
		case inUnordered:
			if n = c.walkLocked(&l.unordered, out, n); c.here.List() != nil {
				return n, true
			}
			if c.stage = done; l.ordered != nil {
				c.enterLocked(&l.ordered.List, inOrdered)
			}
		case inOrdered:
			if n = c.walkLocked(&l.ordered.List, out, n); c.here.List() != nil {
				return n, true
			}
			c.stage = done
		}
	}
	l.readers--
	l.shard.dropLocked(l)
	c.shard, c.list = nil, nil
	return n, false
}

// enterLocked sets the markers around what is to be visited in list.
func (c *Cursor[K]) enterLocked(list *operation.List, to stage) {
	c.stage = to
	if last := list.Last(); last != nil && last.Position() <= c.upTo {
		list.Mark(&c.end, last.Position(), last)
	}
	list.Mark(&c.here, Any, nil)
}

// walkLocked visits what stands between the markers while there is room in out,
// and takes the markers away at the end.
func (c *Cursor[K]) walkLocked(list *operation.List, out []*operation.Machine, n int) int {
	w := list.Next(&c.here)
	for w != nil && w != &c.end && w.Position() <= c.upTo {
		if n == len(out) {
			before := list.Prev(w)
			if before != &c.here {
				c.here.Unlink()
				list.Mark(&c.here, before.Position(), before)
			}
			return n
		}
		n = put(out, n, w)
		w = list.Next(w)
	}
	c.here.Unlink()
	if c.end.List() != nil {
		c.end.Unlink()
	}
	return n
}
