package purgatory

import (
	"runtime/debug"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// trying is the visitor of a check: it tries every operation.
type trying[K comparable] struct{}

func (trying[K]) begin(w *walk[K], deep, inTry bool) (goOn, later bool) {
	if deep || inTry {
		w.drop()
		w.p.signal(w.key, w.hash, w.upTo, false)
		return false, false
	}
	return true, w.p.cfg.spread
}

func (trying[K]) visit(w *walk[K]) {
	for m := w.pop(); m != nil; m = w.pop() {
		if w.hold(m) {
			w.try()
		}
	}
}

// ends hands the rest to a worker if operations arrive as fast as the walk ends them.
func (trying[K]) ends(w *walk[K]) bool {
	overdue := w.cursor.Overdue()
	if overdue {
		w.p.signal(w.key, w.hash, w.upTo, false)
	}
	return overdue
}

// check tries the operations that wait for key up to a position, and returns how many it ended.
// Where it must not run user code on this stack, it hands the check to a worker.
func (p *DelayedOperationPurgatory[K]) check(key K, hash uint64, upTo int64) int {
	return p.overAll(key, hash, upTo, trying[K]{}, nil)
}

// inOrder is the visitor of a check in order: it tries operations until one says no. Such walks over a
// key take turns, so that an operation that one of them is trying is passed over by none. A turn ends
// before callbacks run, since these may block.
type inOrder[K comparable] struct{}

// readSizeInOrder is how many operations a walk in order reads at a time. It mostly tries two: the
// one that takes an item, and the one that finds none.
const readSizeInOrder = 2

// checkInOrder is check for a walk in order. If another one has the turn of the key, that one has a
// worker make it. newcomer is the operation whose registration makes the
// check, if one does.
func (p *DelayedOperationPurgatory[K]) checkInOrder(key K, hash uint64, newcomer *machine.Machine) (d done) {
	s := p.watchers.Used(hash)
	if s == nil {
		return d
	}
	l, ok := s.Lock(key, hash)
	if !ok {
		return d
	}
	w := p.newWalk(s, key, hash, EveryPosition, inOrder[K]{})
	w.nextBatch(readSizeInOrder)
	w.done.newcomer = newcomer
	if w.n, _, ok = l.BeginTurn(&w.cursor, w.slots.batch[:readSizeInOrder]); !ok {
		w.recycle()
		return d
	}
	return w.run()
}

func (inOrder[K]) begin(w *walk[K], deep, inTry bool) (goOn, later bool) {
	if deep || inTry {
		w.drop()
		w.cursor.EndTurn()
		w.p.signal(w.key, w.hash, EveryPosition, true)
		return false, false
	}
	return true, w.p.cfg.spread
}

func (v inOrder[K]) visit(w *walk[K]) {
	goOn, now := true, w.p.timer.Now()
	for goOn {
		m := w.pop()
		if m == nil {
			if !w.cursor.More() || len(w.ending.ops) > batchSize-readSizeInOrder {
				break
			}
			w.nextBatch(readSizeInOrder)
			continue
		}
		goOn = v.one(w, m, now)
	}
	rest := goOn && w.cursor.More()
	w.drop()
	if w.cursor.EndTurn() || rest {
		w.p.signal(w.key, w.hash, EveryPosition, true)
	}
}

// one tries m, unless its context has ended, or its deadline has passed: then nothing is for it, and one whose
// deadline has passed ends as expired, but not on the goroutine that is registering it. An operation that another
// goroutine is trying is passed over. one returns false if m has said no.
func (inOrder[K]) one(w *walk[K], m *machine.Machine, now time.Duration) (goOn bool) {
	if !w.hold(m) {
		return true
	}
	if wait, ok := m.Operation().(*waiter); ok && wait.left() {
		w.collect(w.p.release(m))
		return true
	}
	if m != w.done.newcomer && timer.TakeDue(w.p.timer, entryOf(m), now) {
		w.collect(machine.Expired)
		w.p.passedOver.Add(1)
		return true
	}
	m.SetStopped() // if it says no
	return w.try()
}

func (inOrder[K]) ends(*walk[K]) bool { return true }

// claiming is the visitor that ends operations with an outcome.
type claiming[K comparable] struct {
	outcome machine.Outcome
	began   time.Duration // the walk ends what was registered by then
	most    int           // the walk ends when it has ended more
	match   func(operation.Operation) bool
	took    func(operation.Operation) // is told of each operation that match has chosen and the walk has claimed

	later bool // workers are to run the callbacks, also where no option says so
}

// claimForKey ends the operations that wait for key, and for which match returns true, if it is not nil. It
// returns how many it has ended.
//
// A callback may register an operation for a position that the walk has not reached. The walk does
// not end it, unless it was registered at the very moment at which the walk began, as all are while a
// manual clock stands still. Because of those, a walk ends at the latest when it has ended twice as
// many operations as waited when it began.
func (p *DelayedOperationPurgatory[K]) claimForKey(key K, hash uint64, c claiming[K], cause *error) int {
	c.began, c.most = p.timer.Now(), 2*p.watchers.Shard(hash).Waiting(key, hash)
	return p.overAll(key, hash, EveryPosition, &c, cause)
}

func (c *claiming[K]) begin(w *walk[K], deep, _ bool) (goOn, later bool) {
	return true, deep || c.later || w.p.cfg.spread && c.outcome != machine.Closed
}

func (c *claiming[K]) visit(w *walk[K]) {
	for m := w.pop(); m != nil; m = w.pop() {
		if m.Start() > c.began && c.outcome != machine.Closed || c.match != nil && !c.matches(w, m) || !w.p.claim(m, c.outcome, w.ending.cause) {
			continue
		}
		if w.ending.add(m, c.outcome); c.took != nil {
			c.took(m.Operation().(operation.Operation))
		}
	}
}

func (c *claiming[K]) ends(w *walk[K]) bool {
	return w.done.ended > c.most && c.outcome != machine.Closed // Close ends everybody, and nobody comes
}

// matches calls match. A panic counts as false.
func (c *claiming[K]) matches(w *walk[K], m *machine.Machine) (matched bool) {
	defer func() {
		if v := recover(); v != nil {
			// The report has the type of m, not what its String method returns: other
			// goroutines may be running m's methods.
			blame, stack := w.p.records.Blame(m, observe.Kind(m.Operation()), "match", w.key), debug.Stack()
			w.tries.panics = append(w.tries.panics, func() { guard.Report(v, stack, blame) })
		}
	}()
	return c.match(m.Operation().(operation.Operation))
}
