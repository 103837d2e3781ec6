package purgatory

import (
	"runtime"
	"runtime/trace"
	"weak"

	"github.com/delayedop/purgatory/internal/guard"
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

	turns    turns // of a walk in order
	inside   bool  // the gate: an ending that runs leaves it
	held     machine.Hold
	looks    int          // how often held was to be released
	timed    *callback[K] // the try that runs, with WithSlowCallback
	panicked bool         // the last try has

	tries, met int64
	ending     *ending[K] // nil: none yet, or another goroutine has taken it over
	ended      int
	ownEnded   bool
}

// maxLooks bounds how often a holder tries one operation in a row because state keeps
// changing. After that a worker tries it: otherwise an operation whose TryComplete
// signals its own key would keep its caller for ever.
const maxLooks = 8

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
	if p.nesting.forbidsCheck() {
		p.signal(key, hash, upTo, inOrder)
		return 0
	}
	w := p.newWalk(key, hash, upTo)
	w.inOrder = inOrder
	ended, _ := w.begin()
	if p.cfg.lastTry {
		p.forgotten.checked(key) // not before: see lastTry
	}
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

// beginAt is begin for a key that [watchers.Shard.SomeKeys] has returned.
func (w *walk[K]) beginAt(k watchers.Key[K]) (ended int, own bool) {
	w.count(1)
	w.n, w.more = w.shard.BeginAt(&w.cursor, k, w.batch[:])
	return w.run()
}

func (w *walk[K]) run() (ended int, own bool) {
	if w.n == 0 && !w.more {
		w.reset()
		return 0, false
	}
	if w.more && w.claim != machine.Pending && w.cursor.Ordered() {
		// A callback may register an operation for a position that the cursor has not
		// reached. The walk ends what waited when it began, and nothing else.
		for _, m := range w.cursor.Rest() {
			w.rest = append(w.rest, weak.Make(m))
		}
		w.more = false
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
	ended, own = w.ended, w.ownEnded
	w.reset()
	return ended, own
}

// count counts a walk that claims operations, from before it reads a list until its end; see
// reuse.
func (w *walk[K]) count(n int64) {
	if w.claim != machine.Pending {
		w.p.claiming.Add(n)
	}
}

// reset makes w as new, except for batch, which is empty, and gives it back to its pool.
func (w *walk[K]) reset() {
	w.count(-1)
	var none K
	w.shard, w.key, w.claim, w.cause, w.match, w.took = nil, none, machine.Pending, nil, nil, nil
	w.inOrder, w.own, w.ownEnded, w.later, w.inside, w.ended = false, nil, false, false, false, 0
	w.at, w.n, w.more, w.rest, w.turns = 0, 0, false, nil, turns{}
	w.p.walks.Put(w)
}

// steps goes on with the walk. It returns early, with false, if a TryComplete panics.
func (w *walk[K]) steps() (over bool) {
	defer w.recovered()
	if w.held.Machine != nil { // its try has panicked or called runtime.Goexit
		w.panicked = true
		w.tried(w.again())
	}
	for {
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
		w.countTries()
		ended := w.end()
		if !w.next() {
			return true
		}
		if ended == batchSize {
			// The goroutines that a herd of waits wakes become runnable as fast as a walk can end
			// them, and any other goroutine would have to wait for all of them. So they run now.
			runtime.Gosched()
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

// try tries m, if no other goroutine holds it; else the holder tries it again.
func (w *walk[K]) try(m *machine.Machine) {
	if !m.Acquire() {
		return
	}
	w.held.Machine, w.held.Op, w.looks, w.panicked = m, m.Operation(), 0, false
	end, again := w.call(true)
	if again {
		end = w.again()
	}
	w.tried(end)
}

// call calls TryComplete of the operation that the walk holds, and counts the call.
func (w *walk[K]) call(release bool) (end machine.Outcome, again bool) {
	w.tries++
	if w.p.cfg.slow > 0 {
		w.timed = w.p.callbacks.begin(w.held.Machine, "TryComplete", watchers.FirstKey[K](w.held.Machine))
		end, again = w.held.Try(false)
		w.endTimed()
	} else {
		end, again = w.held.Try(release)
	}
	if end == machine.Satisfied {
		w.met++
	}
	return end, again
}

func (w *walk[K]) endTimed() {
	w.p.callbacks.end(w.timed)
	w.timed = nil
}

// again goes on after a try that returned false, or ended otherwise: it releases the
// operation, or tries it once more while others ask for that. It returns how the walk has to
// end the operation; Pending means that it is released.
func (w *walk[K]) again() (end machine.Outcome) {
	for {
		if w.looks++; w.looks == maxLooks {
			return w.p.leave(w.held.Machine)
		}
		end, look := w.held.Release(true)
		if !look {
			return end
		}
		w.panicked = false
		if end, _ = w.call(false); end == machine.Satisfied {
			return end
		}
	}
}

// tried is called when the tries of an operation are over. A walk in order ends with the first
// no; a panic is none, because an operation that panics each time must not stop the others.
func (w *walk[K]) tried(end machine.Outcome) {
	m := w.held.Machine
	w.held = machine.Hold{}
	if end != machine.Pending {
		w.add(m, end)
	} else if w.inOrder && !w.panicked {
		w.stop()
		w.turns.stopped = true
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

// claimFor claims m for the outcome of the walk, or leaves a wish to m's holder.
func (w *walk[K]) claimFor(m *machine.Machine) {
	if w.match != nil && !w.matches(m) || !w.p.claim(m, w.claim, w.cause) {
		return
	}
	if w.add(m, w.claim); w.took != nil {
		w.took(m.Operation().(operation.Operation))
	}
}

// matches calls match. A panic counts as false.
func (w *walk[K]) matches(m *machine.Machine) bool {
	defer func() {
		if v := recover(); v != nil {
			// The report has the type of m, not what its String method returns: other
			// goroutines may be running m's methods.
			guard.Report(v, func(recovered any, stack []byte) {
				w.p.notePanic(recovered, stack, "operation", kindOf(m.Operation()), "callback", "match", "key", keyText(w.key))
			})
		}
	}()
	return w.match(m.Operation().(operation.Operation))
}

// add puts m, which the caller holds, among the operations that end with this batch.
func (w *walk[K]) add(m *machine.Machine, o machine.Outcome) {
	if w.ending == nil {
		w.ending = w.p.newEnding(w.shard)
	}
	w.ending.add(m, o)
	w.ended++
	w.ownEnded = w.ownEnded || m == w.own
}

// end ends the operations that were added, and returns their number.
func (w *walk[K]) end() (n int) {
	e := w.ending
	if e == nil || e.n == 0 {
		return 0
	}
	n = e.n
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
	tries, wasted := w.tries, w.tries-w.met
	w.tries, w.met = 0, 0
	run := w.shard.Tried(tries, wasted)
	if w.shard.CountsTries() {
		w.shard.KeyTried(w.key, w.hash, tries, wasted)
	}
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

// recovered is deferred by steps. It reports a panic of a TryComplete.
func (w *walk[K]) recovered() {
	v := recover()
	if w.timed != nil { // also after a Goexit
		w.endTimed()
	}
	if v != nil {
		m := w.held.Machine
		w.p.reportPanic(v, m, "TryComplete", watchers.FirstKey[K](m))
	}
}

// letGo releases m, which the caller holds, for good: if others have asked for a try, a worker
// makes it; if they have asked for an end, letGo ends m.
func (p *DelayedOperationPurgatory[K]) letGo(m *machine.Machine) {
	_, hash := watchers.KeyOf[K](m)
	if end := p.leave(m); end != machine.Pending {
		p.endOne(p.watchers.Shard(hash), m, end, nil)
	}
}

// leave releases m, which the caller holds and will not try again: if others have asked for a
// try, a worker makes it. leave returns how the caller has to end m; Pending means that it is
// released.
func (p *DelayedOperationPurgatory[K]) leave(m *machine.Machine) (end machine.Outcome) {
	key, hash := watchers.KeyOf[K](m) // while it is held: afterwards another goroutine may end it
	end, look := m.Release(false)
	if look {
		p.signal(key, hash, EveryPosition, false)
	}
	return end
}
