package purgatory

import (
	"runtime/trace"
	"time"
	"weak"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// walk goes over the operations that wait for a key, a batch at a time. It tries each, or
// claims each to end it with another outcome, and puts those that must end into an ending,
// which runs when the batch is over. So all tries of a batch come before its first callback.
//
// A walk belongs to one goroutine at a time. If a try calls runtime.Goexit, another goroutine
// goes on where the walk stands, and nobody waits for it.
type walk[K comparable] struct {
	p     *DelayedOperationPurgatory[K]
	shard *watchers.Shard[K]
	key   K
	hash  uint64
	upTo  int64

	claim   machine.Outcome // Pending: try the operations; else end all that match with this outcome
	cause   *error          // of Cancelled
	match   func(operation.Operation) bool
	took    func(operation.Operation) // is told of each operation that match has chosen and the walk has claimed
	inOrder bool                      // stop at the first operation whose try returns false, see turns
	own     *machine.Machine          // the caller's: finish reports whether the walk has ended it
	later   bool                      // workers run the callbacks

	batch  [batchSize]*machine.Machine // batch[at:n] are to be visited
	at, n  int
	more   bool                            // cursor has more after batch
	rest   []weak.Pointer[machine.Machine] // after batch, instead of cursor; others may end them while a callback blocks
	cursor watchers.Cursor[K]

	turns    turns        // of a walk in order
	inside   bool         // the gate: an ending that runs leaves it
	held     machine.Hold // the operation that is tried, or was
	trying   bool         // its tries are not over
	inRow    int          // tries of held
	panicked bool         // the last try has

	tries, wasted int64      // of the batch
	ending        *ending[K] // nil between batches, if another goroutine has taken it over
	ended         int
	ownEnded      bool
}

func (p *DelayedOperationPurgatory[K]) newWalk(key K, hash uint64, upTo int64) *walk[K] {
	w, _ := p.walks.Get().(*walk[K])
	if w == nil {
		w = &walk[K]{p: p}
	}
	w.shard, w.key, w.hash, w.upTo, w.later = p.watchers.Shard(hash), key, hash, upTo, p.cfg.spread
	return w
}

// check tries the operations that wait for key up to a position, and returns how many it
// ended. Where it must not run user code on this stack, it leaves the check to a worker.
func (p *DelayedOperationPurgatory[K]) check(key K, hash uint64, upTo int64, inOrder bool) int {
	if h := p.cfg.hook; h != nil {
		h.Called(key, false, inOrder)
	}
	if p.nesting.forbidsCheck() {
		p.signal(key, hash, upTo, inOrder)
		return 0
	}
	w := p.newWalk(key, hash, upTo)
	w.inOrder = inOrder
	ended, _ := w.begin()
	return ended
}

// begin goes over the operations of the walk's key. It returns how many it ended, and whether
// the caller's own is among them.
func (w *walk[K]) begin() (ended int, own bool) {
	w.count(1)
	if w.inOrder {
		w.beginTurn()
	} else {
		w.n, w.more = w.shard.Begin(&w.cursor, w.key, w.hash, w.upTo, w.batch[:])
	}
	return w.run()
}

func (w *walk[K]) run() (ended int, own bool) {
	if w.n == 0 {
		return w.finish()
	}
	if w.more && w.claim != machine.Pending && w.cursor.Ordered() {
		// A callback may register an operation for a position that the cursor has not
		// reached. The walk ends what waited when it began, and nothing else.
		w.readRest()
	}
	w.inside = true
	if !w.shard.Gate().Enter() && w.p.nesting.occupiedGate() {
		if deep, inTry := w.p.nesting.look(); w.claim != machine.Pending {
			w.later = w.later || deep
		} else if deep || inTry {
			w.handOver()
			return w.finish()
		}
	}
	return w.resume()
}

// readRest takes what the cursor has not reached.
func (w *walk[K]) readRest() {
	var out [batchSize]*machine.Machine
	for w.more {
		var n int
		n, w.more = w.cursor.Next(out[:])
		for _, m := range out[:n] {
			w.rest = append(w.rest, weak.Make(m))
		}
	}
}

// resume goes on with the walk from where it stands.
func (w *walk[K]) resume() (ended int, own bool) {
	over := false
	defer func() {
		if !over { // user code has called runtime.Goexit
			sched.Go(func() { w.resume() })
		}
	}()
	if trace.IsEnabled() {
		defer w.p.region(regionCheck)()
	}
	for !w.steps() {
	}
	over = true
	return w.finish()
}

// finish ends the walk and gives it back to its pool.
func (w *walk[K]) finish() (ended int, own bool) {
	if w.inside {
		w.shard.Gate().Exit(0)
	}
	w.count(-1)
	ended, own = w.ended, w.ownEnded
	var none K // w becomes as new, except for batch, which is empty
	w.shard, w.key, w.claim, w.cause, w.match, w.took = nil, none, machine.Pending, nil, nil, nil
	w.inOrder, w.own, w.ownEnded, w.later, w.inside, w.ended = false, nil, false, false, false, 0
	w.at, w.n, w.more, w.rest, w.turns = 0, 0, false, nil, turns{}
	w.p.walks.Put(w)
	return ended, own
}

// count counts a walk that claims operations, from before it reads a list until its end; see
// reuse.
func (w *walk[K]) count(n int64) {
	if h := w.p.cfg.hook; h != nil {
		h.Walk(w.key, int(n))
	}
	if w.claim != machine.Pending {
		w.p.claiming.Add(n)
	}
}

// steps goes on with the walk. It returns early, with false, if a TryComplete panics.
func (w *walk[K]) steps() (over bool) {
	defer func() {
		if !over {
			w.interrupted(recover())
		}
	}()
	if w.trying { // the try has panicked or called runtime.Goexit
		w.panicked = true
		w.tried(machine.Pending, true)
		w.panicked = false
	}
	var yielded time.Time // see sched.GiveWay
	for {
		if w.ending == nil {
			w.ending = w.p.newEnding(w.shard)
		}
		for w.at < w.n {
			m := w.batch[w.at]
			w.batch[w.at] = nil // others may end it while a callback blocks
			w.at++
			if w.claim == machine.Pending {
				w.try(m)
			} else {
				w.claimFor(m)
			}
		}
		w.held = machine.Hold{} // others may end it while a callback blocks
		w.countTries()
		ended := w.end()
		if !w.next() {
			return true
		}
		if ended == batchSize {
			// The goroutines that a herd of waits wakes become runnable as fast as a walk can end
			// them, and any other goroutine would have to wait for all of them. So they run now.
			yielded = sched.GiveWay(yielded)
		}
	}
}

// next takes the next batch, and reports whether there is one.
func (w *walk[K]) next() bool {
	w.at, w.n = 0, 0
	switch {
	case w.inOrder:
		return w.nextInOrder()
	case len(w.rest) > 0:
		for len(w.rest) > 0 && w.n < len(w.batch) {
			if m := w.rest[0].Value(); m != nil {
				w.batch[w.n] = m
				w.n++
			}
			w.rest = w.rest[1:]
		}
		return true
	case !w.more:
		return false
	case w.cursor.Overdue():
		w.handOver() // operations arrive as fast as the walk ends them
		return false
	default:
		w.n, w.more = w.cursor.Next(w.batch[:])
		return true
	}
}

// stop ends the walk after this operation.
func (w *walk[K]) stop() {
	clear(w.batch[w.at:w.n])
	w.at, w.n = 0, 0
	if w.more && !w.inOrder {
		w.cursor.Stop()
	}
	w.more = false
}

// end ends the operations that were added, and returns their number.
func (w *walk[K]) end() (n int) {
	e := w.ending
	if n = e.n; n == 0 {
		return 0
	}
	w.ended += n
	if w.inOrder {
		w.endTurn()
	}
	if !w.inside {
		w.shard.Gate().Enter()
	}
	w.ending, w.inside = nil, false
	e.shard, e.cause = w.shard, w.cause
	if e.run(w.later) {
		w.ending = e
	}
	return n
}

// countTries counts the tries of a batch.
func (w *walk[K]) countTries() {
	if w.tries == 0 {
		return
	}
	tries, wasted := w.tries, w.wasted
	w.tries, w.wasted = 0, 0
	run := w.shard.Tried(w.key, w.hash, tries, wasted)
	if wasted > 0 {
		w.p.nesting.afterTries(run, tries)
	}
}

// handOver ends a walk that tries operations without running more user code on this
// goroutine: a worker checks the key.
func (w *walk[K]) handOver() {
	w.stop()
	if w.turns.has {
		_ = w.cursor.EndTurn()
	}
	w.p.signal(w.key, w.hash, w.upTo, w.inOrder)
}

// turns is the state of a walk in order. Such walks over a key take turns, so that an operation
// that one of them is trying is passed over by none: see [watchers.Shard.BeginTurn]. A turn
// ends before callbacks run, since these may block. When they have returned, the walk begins
// another turn at the first in line, if another walk has left its work, or if operations have ended
// and none has said no.
type turns struct {
	has     bool // the walk has its turn
	stopped bool // an operation has said no in this turn
	goOn    bool // another turn follows
	n       int  // turns that were begun
	others  int  // of these: because another walk has left its work
}

// After so many turns a worker goes on: other goroutines that put items, or a TryComplete that
// checks its own key, must not keep the caller. See also maxInRow.
const maxTurns = 1 << 14

// inOrderBatch is how many operations a walk in order takes at a time. It mostly tries two: the
// one that takes an item, and the one that finds none.
const inOrderBatch = 2

func (w *walk[K]) beginTurn() {
	w.n, w.more, w.turns.has = w.shard.BeginTurn(&w.cursor, w.key, w.hash, w.batch[:inOrderBatch])
	w.turns.stopped = false
	w.turns.n++
	if w.turns.has && w.n == 0 && !w.more {
		if w.endTurn(); w.turns.goOn { // another walk in order came meanwhile, and has left its work
			w.p.signal(w.key, w.hash, w.upTo, true)
		}
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
	if w.turns.others == maxInRow || w.turns.n == maxTurns {
		w.p.signal(w.key, w.hash, w.upTo, true)
		return false
	}
	w.beginTurn()
	return w.turns.has
}
