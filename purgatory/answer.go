package purgatory

import (
	"runtime/trace"
	"slices"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// answerOne runs the callbacks of an operation that has ended. It runs them on this
// goroutine, or has a worker run them if this goroutine's stack is deep.
func (p *DelayedOperationPurgatory[K]) answerOne(gate *watchers.Gate, batch *watchers.Ending, key *logKey[K]) {
	answered := 0
	alone := gate.Enter()
	defer func() { gate.Exit(answered) }() // also when a callback ends the goroutine
	if !alone && p.suspects() {
		if deep, _ := p.look(); deep {
			p.hand(batch, key)
			return
		}
	}
	p.answer(batch, key)
	answered = 1
}

// answer runs the callbacks of operations that have ended, even if one of them panics or
// calls runtime.Goexit. If answer returns, its caller counts the operations as answered.
// After a Goexit answer does not return, and goOn has counted them.
func (p *DelayedOperationPurgatory[K]) answer(batch *watchers.Ending, key *logKey[K]) {
	c := calls{batch: batch}
	defer func() {
		if c.at < len(batch.Machines) {
			p.goOn(&c, key)
		}
	}()
	if trace.IsEnabled() {
		p.traced(regionCallbacks, func() { p.callRest(&c, key) })
	} else {
		p.callRest(&c, key)
	}
}

// callRest runs the callbacks from c on.
func (p *DelayedOperationPurgatory[K]) callRest(c *calls, key *logKey[K]) {
	for c.at < len(c.batch.Machines) {
		p.call(c, key)
	}
}

// logKey is the key that the log names with an operation: the key that was checked, or the
// operation's first. Only the lists have the keys of an operation, so the caller reads the
// key before the operation leaves them.
type logKey[K comparable] struct {
	key  K
	each []K // of a batch whose operations wait for different keys: the first key of each
}

// of returns the key of the i-th operation of the batch that k belongs to.
func (k *logKey[K]) of(i int) K {
	if k.each != nil {
		return k.each[i]
	}
	return k.key
}

// calls is a position in the callbacks of a batch. The key is no field of it, because goOn
// may hand the key to a worker, so that the key escapes to the heap. Escape analysis does
// not tell the fields of a struct apart: the arrays of batch would escape with the key, two
// allocations for each operation that ends alone.
type calls struct {
	batch *watchers.Ending
	at    int // the operation whose callbacks run
	begun int // how many of its callbacks have begun: 1 OnComplete, 2 OnExpiration
}

// call runs the callbacks from c on, up to the first that panics.
func (p *DelayedOperationPurgatory[K]) call(c *calls, key *logKey[K]) {
	defer func() {
		if v := recover(); v != nil {
			p.reportPanic(v, c.batch.Machines[c.at], [...]string{"", "OnComplete", "OnExpiration"}[c.begun], key.of(c.at))
		}
	}()
	for ; c.at < len(c.batch.Machines); c.at, c.begun = c.at+1, 0 {
		m := c.batch.Machines[c.at]
		if c.begun == 0 {
			c.begun = 1
			if p.cfg.slow == 0 {
				m.Operation().OnComplete()
			} else {
				p.timed(m, "OnComplete", key.of(c.at), m.Operation().OnComplete)
			}
		}
		if c.batch.Outcomes[c.at] == machine.Expired && c.begun == 1 {
			c.begun = 2
			if p.cfg.slow == 0 {
				m.Operation().OnExpiration()
			} else {
				p.timed(m, "OnExpiration", key.of(c.at), m.Operation().OnExpiration)
			}
		}
	}
}

// goOn has other goroutines run the rest of the callbacks when one has called
// runtime.Goexit, and waits for them. It makes copies for them: otherwise the caller's
// batch and key would be on the heap, two allocations for each operation that ends alone.
func (p *DelayedOperationPurgatory[K]) goOn(c *calls, key *logKey[K]) {
	batch := watchers.Ending{Machines: slices.Clone(c.batch.Machines), Outcomes: slices.Clone(c.batch.Outcomes)}
	rest, of := calls{&batch, c.at, c.begun}, logKey[K]{key.key, slices.Clone(key.each)}
	guard.Resume(func() { p.callRest(&rest, &of) })
	p.answered(len(batch.Machines))
}

// answered counts operations whose callbacks have run, where the goroutine passes no number
// to [watchers.Gate.Exit]: after a Goexit. It uses the gate of the first shard; only the sum
// over all gates has a meaning.
func (p *DelayedOperationPurgatory[K]) answered(n int) {
	p.watchers.Shards()[0].Gate().Answered(n)
}

// reportPanic tells the panic handler of a panic in one of m's methods. The deferred function
// that recovered calls it.
func (p *DelayedOperationPurgatory[K]) reportPanic(v any, m *machine.Machine, callback string, key K) {
	guard.Report(v, func(recovered any, stack []byte) {
		text := operationText(m, func(any, []byte) {}) // one panic is reported, not that of String, too
		p.notePanic(recovered, stack, "operation", text, "callback", callback, "age", p.ageOf(m), "key", keyText(key))
	})
}

// handed is an operation that has ended, whose callbacks are left to a worker.
type handed[K comparable] struct {
	m   *machine.Machine
	key K
}

// handedQueue holds operations whose callbacks were handed to the signal workers: because
// a stack was deep, or because Shutdown ended the operation.
type handedQueue[K comparable] struct {
	sched.Mutex // lock level 9, taken with no other held
	waiting     []handed[K]
}

func (q *handedQueue[K]) put(h ...handed[K]) {
	q.Lock()
	q.waiting = append(q.waiting, h...)
	q.Unlock()
}

func (q *handedQueue[K]) take() (h handed[K], ok bool) {
	q.Lock()
	defer q.Unlock()
	if len(q.waiting) == 0 {
		return h, false
	}
	h = q.waiting[0]
	q.waiting[0] = handed[K]{}
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return h, true
}

func (q *handedQueue[K]) empty() bool {
	q.Lock()
	defer q.Unlock()
	return len(q.waiting) == 0
}

// hand leaves the callbacks of operations that have ended to the signal workers.
func (p *DelayedOperationPurgatory[K]) hand(batch *watchers.Ending, key *logKey[K]) {
	all := make([]handed[K], len(batch.Machines))
	for i, m := range batch.Machines {
		all[i].m, all[i].key = m, key.of(i)
	}
	p.handed.put(all...)
	p.workers.Kick()
}

// workHanded runs the callbacks of an operation from the handedQueue.
func (p *DelayedOperationPurgatory[K]) workHanded() (found bool) {
	h, found := p.handed.take()
	if !found {
		return false
	}
	p.kickAnother()
	machines, outcomes := [1]*machine.Machine{h.m}, [1]machine.Outcome{h.m.Outcome()}
	gate, answered := p.watchers.Shards()[0].Gate(), 0
	gate.Enter() // and no look at the stack: to hand them on would help nobody
	defer func() { gate.Exit(answered) }()
	p.answer(&watchers.Ending{Machines: machines[:], Outcomes: outcomes[:]}, &logKey[K]{key: h.key})
	answered = 1
	return true
}
