package purgatory

// turns is the state of a walk in order. Such walks over a key take turns, so that an operation
// that one of them is trying is passed over by none: see [watchers.Shard.BeginTurn]. A turn
// ends before callbacks run, since these may block. When they have returned, the walk begins
// another turn at the first in line, unless its last one has come to a no.
type turns struct {
	has     bool // the walk has its turn
	stopped bool // an operation has said no in this turn
	goOn    bool // another turn follows
	n       int  // turns that were begun
	others  int  // of these: because another walk has left its work
}

// After so many turns a worker goes on: other goroutines that put items, or a TryComplete that
// checks its own key, must not keep the caller. See also maxLooks.
const maxTurns = 1 << 14

// inOrderBatch is how many operations a walk in order takes at a time. It mostly tries two: the
// one that takes an item, and the one that finds none.
const inOrderBatch = 2

func (w *walk[K]) beginTurn() {
	w.n, w.more, w.turns.has = w.shard.BeginTurn(&w.cursor, w.key, w.hash, w.batch[:inOrderBatch])
	w.turns.stopped, w.turns.goOn = false, false
	w.turns.n++
	if w.turns.has && w.n == 0 && !w.more {
		w.endTurn()
	}
}

// endTurn ends the turn. Another one follows if another walk in order came meanwhile, or if no
// operation has said no yet and some have ended.
func (w *walk[K]) endTurn() {
	again := w.cursor.EndTurn()
	if again {
		w.turns.others++
	}
	w.turns.has = false
	w.turns.goOn = again || w.ending != nil && w.ending.n > 0 && !w.turns.stopped
	w.at, w.n, w.more = 0, 0, false
}

// nextInOrder takes the next batch of the turn, or begins the next turn, and reports whether
// there is one.
func (w *walk[K]) nextInOrder() bool {
	if w.turns.has && w.more {
		w.n, w.more = w.cursor.Next(w.batch[:inOrderBatch])
		return true
	}
	if w.turns.has {
		w.endTurn()
	}
	if !w.turns.goOn {
		return false
	}
	if w.turns.others == maxLooks || w.turns.n == maxTurns {
		w.p.signal(w.key, w.hash, w.upTo, true)
		return false
	}
	w.beginTurn()
	return w.turns.has
}
