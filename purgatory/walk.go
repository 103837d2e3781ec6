package purgatory

import (
	"runtime/trace"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// walk goes over the operations that wait for a key, a batch at a time. Its visitor tries or claims
// each. Those that must end with a batch are ended when the batch is over: so all tries of a batch come
// before its first callback.
//
// A walk belongs to one goroutine at a time. If user code calls runtime.Goexit, another goroutine
// goes on where the walk stands, and nobody waits for it.
type walk[K comparable] struct {
	p       *DelayedOperationPurgatory[K]
	key     K
	hash    uint64
	upTo    int64
	visitor visitor[K]

	cursor watchers.Cursor[K]
	at, n  int // slots.batch[at:n] has been read and is still to be visited
	most   int // operations of the batch, with those that are still to be read
	slots  slots[K]
	stage  stage
	held   *machine.Machine // is being tried

	ending ending[K] // of this batch; its shard is that of key
	tries  tries[K]  // of this batch
	done   done
}

// done is what a walk has ended.
type done struct {
	ended       int
	newcomer    *machine.Machine // whose registration in line makes the walk, if one does
	newcomerToo bool             // the walk has ended newcomer
}

// slots is the memory of a walk's batch and of its ending.
type slots[K comparable] struct {
	batch, ops [batchSize]*machine.Machine
	outcomes   [batchSize]machine.Outcome
	keys       [batchSize]K
}

// stage is how far a walk has come with a batch.
type stage uint8

const (
	outside   stage = iota // it is not inside the gate
	visiting               // it is inside the gate
	answering              // the operations of the batch have ended, and their callbacks run
)

// visitor is what a walk does with the operations that it comes to.
type visitor[K comparable] interface {
	// begin begins a batch, inside the gate, and reports whether the walk goes on, and whether workers are to run its
	// callbacks. If the walk must not run user code on a stack like this one, begin hands it to a worker.
	begin(w *walk[K], deep, inTry bool) (goOn, later bool)
	// visit visits the batch of w, and adds those that have to end to its ending.
	visit(w *walk[K])
	// ends is asked if there is more to read, and reports whether the walk ends with this batch.
	ends(w *walk[K]) bool
}

// newWalk returns a walk over a key of s, whose lock the caller holds.
func (p *DelayedOperationPurgatory[K]) newWalk(s *watchers.Shard[K], key K, hash uint64, upTo int64, v visitor[K]) *walk[K] {
	w, _ := p.walks.Get().(*walk[K])
	if w == nil {
		w = new(walk[K])
		w.ending = ending[K]{ops: w.slots.ops[:0], outcomes: w.slots.outcomes[:0], keys: w.slots.keys[:0]}
	}
	w.p, w.ending.p, w.tries.observed = p, p, p.observed
	w.ending.shard, w.key, w.hash, w.upTo, w.visitor = s, key, hash, upTo, v
	if h := p.cfg.hook; h != nil {
		h.Walk(key, 1)
	}
	return w
}

// overAll lets v visit all operations that wait for key, up to a position. It returns how many were ended.
func (p *DelayedOperationPurgatory[K]) overAll(key K, hash uint64, upTo int64, v visitor[K], cause *error) (ended int) {
	s := p.watchers.Used(hash)
	if s == nil {
		return 0
	}
	l, ok := s.Lock(key, hash)
	if !ok {
		return 0
	}
	w := p.newWalk(s, key, hash, upTo, v)
	w.ending.cause = cause
	w.nextBatch(batchSize)
	if w.n, _ = l.Begin(&w.cursor, upTo, w.slots.batch[:readSize]); w.n == 0 { // all wait for a higher position
		w.recycle()
		return 0
	}
	return w.run().ended
}

// run takes the walk from where it stands to its end.
func (w *walk[K]) run() (d done) {
	over := false
	defer func() {
		if !over { // user code has called runtime.Goexit
			sched.Go(func() { w.run() })
		}
	}()
	if trace.IsEnabled() {
		defer w.p.region(regionCheck)()
	}
	for !w.steps() {
	}
	over = true
	d = w.done
	w.recycle()
	return d
}

// steps makes the steps from where the walk stands to its end. It returns false after a panic of an operation's method.
func (w *walk[K]) steps() (over bool) {
	defer func() {
		if over {
			return
		}
		if v := recover(); v != nil {
			w.tries.panics = append(w.tries.panics, w.panicked(v))
		}
	}()
	var yielded time.Time // see sched.GiveWay
	for before, more := 0, true; more; before = w.done.ended {
		if more = w.step(); w.done.ended-before == batchSize {
			// The goroutines that a herd of waits wakes become runnable as fast as a walk can end
			// them, and any other goroutine would have to wait for all of them. So they run now.
			yielded = sched.GiveWay(yielded)
		}
	}
	return true
}

// panicked returns what reports v, the value of a panic in a TryComplete, or in a callback.
func (w *walk[K]) panicked(v any) (report func()) {
	if e := &w.ending; w.stage == answering {
		return w.p.records.Recovered(v, e.ops[e.at], callbackNames[e.begun], e.keys[e.at])
	}
	key, _ := watchers.FirstKey[K](w.held)
	return w.p.records.Recovered(v, w.held, "TryComplete", key)
}

// recycle gives w, whose walk is over, back to its pool.
func (w *walk[K]) recycle() {
	if h := w.p.cfg.hook; h != nil {
		h.Walk(w.key, -1)
	}
	pool := &w.p.walks
	var none K
	w.p, w.key, w.visitor, w.done = nil, none, nil, done{}
	w.ending.p, w.ending.shard, w.ending.cause, w.tries.observed = nil, nil, nil, nil
	pool.Put(w)
}

// step takes a batch from where it stands to its end, and reads the next one, if there is one.
func (w *walk[K]) step() (more bool) {
	if w.stage == outside {
		if !w.begin() {
			return false
		}
		w.stage = visiting
	}
	if w.stage != answering {
		if w.held != nil { // its TryComplete has panicked, or has called runtime.Goexit: that is no yes
			w.collect(w.p.release(w.held))
		}
		w.visitor.visit(w)
		w.count()
		w.done.ended += len(w.ending.ops)
		w.ending.end()
		w.stage = answering
	}
	w.report()
	w.ending.answer()
	w.stage = outside
	if more = w.cursor.More(); more && w.visitor.ends(w) {
		w.drop()
		return false
	}
	w.nextBatch(batchSize)
	return more
}

// begin enters the gate for a batch.
func (w *walk[K]) begin() (goOn bool) {
	deep, inTry := w.p.enter(w.ending.shard, unsafe.Pointer(w))
	if goOn, w.ending.later = w.visitor.begin(w, deep, inTry); !goOn {
		w.ending.shard.Gate().Exit(0)
	}
	return goOn
}

// nextBatch begins a batch of at most the given number of operations, which pop reads.
func (w *walk[K]) nextBatch(most int) { w.at, w.n, w.most = 0, 0, most }

// readSize is how many operations a walk reads before it releases the shard's lock. To read one that is in
// no cache takes 0.2 µs, and a goroutine that waits for a [sync.Mutex] spins for 2.5 µs before it
// sleeps. So a goroutine that registers an operation beside a walk mostly gets the lock while the walk
// tries what it has read.
const readSize = 8

// pop takes the next operation of the batch; nil if there is none.
func (w *walk[K]) pop() (m *machine.Machine) {
	if w.at == w.n && w.n < w.most && w.cursor.More() {
		n, _ := w.cursor.Next(w.slots.batch[w.n:min(w.n+readSize, w.most)])
		w.n += n
	}
	if w.at < w.n {
		m = w.slots.batch[w.at]
		w.slots.batch[w.at] = nil // others may end it while a callback blocks
		w.at++
	}
	return m
}

// drop ends the walk before what it has not visited.
func (w *walk[K]) drop() {
	clear(w.slots.batch[w.at:w.n])
	w.at = w.n
	if w.cursor.More() {
		w.cursor.Stop()
	}
}

// hold makes the walk the holder of m. If another goroutine is that, it tries m again.
func (w *walk[K]) hold(m *machine.Machine) (held bool) {
	if held = m.Acquire(); held {
		w.held = m
	}
	return held
}

// try tries the operation that the walk holds.
func (w *walk[K]) try() (met bool) {
	end, met := w.p.ask(w.held, true, &w.tries)
	w.collect(end)
	return met
}

// collect adds the operation that the walk holds to those that end, unless end is Pending.
func (w *walk[K]) collect(end machine.Outcome) {
	if end != machine.Pending {
		w.ending.add(w.held, end)
		w.done.newcomerToo = w.done.newcomerToo || w.held == w.done.newcomer
	}
	w.held = nil
}

// count counts the tries of the batch, unless the walk is part of a registration.
func (w *walk[K]) count() {
	t := &w.tries
	if t.made > 0 && w.done.newcomer == nil {
		w.ending.shard.Tried(w.key, w.hash, int64(t.made), int64(t.wasted))
	}
	t.made, t.wasted = 0, 0
}

// report reports the panics, while the walk holds neither an operation nor the turn of a line: the handler is user
// code, and may block.
func (w *walk[K]) report() {
	for len(w.tries.panics) > 0 {
		next := w.tries.panics[0]
		w.tries.panics = w.tries.panics[1:]
		next()
	}
	w.tries.panics = nil
}
