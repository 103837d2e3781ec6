package purgatory

import (
	"runtime/trace"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/watchers"
)

// batchSize is how many operations are collected, and ended, together.
const batchSize = 128

// check is a walk over the operations of a key, or of a shard. It tries each, or claims
// each for another outcome, and ends them in batches: it claims all, ends all, and then
// runs the callbacks.
type check[K comparable] struct {
	hold      hold[K] // of the operation that is tried
	holding   bool    // the caller is the holder of hold.Machine
	shard     *watchers.Shard[K]
	outcome   machine.Outcome    // Pending: try them; else end all as this
	cause     *error             // of Cancelled
	match     matcher            // nil: all
	together  *watchers.Together // the keys of the same call; nil: one key
	onWorkers bool               // workers run the callbacks
	looked    bool               // nested has been called by this walk
	ended     int

	answered int // of ended: their callbacks have run on this goroutine

	// ops[:claimed] are held, to be ended with outcomes; ops[at:n] are still to be
	// visited.
	ops      [batchSize]*machine.Machine
	outcomes [batchSize]machine.Outcome
	claimed  int
	at, n    int
	more     bool               // cursor has more after ops
	rest     []*machine.Machine // after ops, if they come from Close, Gather or collectRest

	key    K   // if ops come from a key; hold.key then points to it
	keys   []K // else: the first keys of the operations that end together
	hash   uint64
	upTo   int64
	cursor watchers.Cursor[K] // after ops, if they come from a key
}

func (p *DelayedOperationPurgatory[K]) newCheck(s *watchers.Shard[K]) *check[K] {
	c := p.checks.Get().(*check[K])
	c.shard = s
	return c
}

// begin walks over the operations that wait for key and returns how many it ended.
func (c *check[K]) begin(key K, hash uint64, upTo int64) (ended int) {
	c.n, c.more = c.shard.Begin(&c.cursor, key, hash, upTo, c.ops[:])
	if c.n == 0 {
		c.reset()
		return 0
	}
	c.of(key, hash, upTo)
	if c.outcome != machine.Pending {
		c.collectRest()
	}
	return c.finish()
}

// collectRest collects all operations of the key before the walk ends the first. What its
// callbacks register then waits, and cannot keep the walk going.
func (c *check[K]) collectRest() {
	var ops [batchSize]*machine.Machine
	for c.more && !c.cursor.Overdue() {
		var n int
		n, c.more = c.cursor.Next(ops[:])
		c.rest = append(c.rest, ops[:n]...)
	}
	if c.more { // other goroutines register as fast as the cursor moves
		c.cursor.Stop()
		c.more = false
	}
}

// of says that the operations of the walk are those of key.
func (c *check[K]) of(key K, hash uint64, upTo int64) {
	c.key, c.hash, c.upTo = key, hash, upTo
	c.hold.key = &c.key
}

// finish runs the walk to its end, gives the check back to the pool, and returns how many
// operations it ended.
func (c *check[K]) finish() (ended int) {
	alone := c.shard.Gate().Enter()
	over := false
	defer func() {
		if !over { // user code has called runtime.Goexit
			c.looked = true
			guard.Resume(c.walk)
		}
		c.exit()
	}()
	if !alone && c.hold.p.suspects() && c.hold.p.nested() {
		if c.outcome == machine.Pending {
			c.handOver()
			over = true
			return 0
		}
		c.onWorkers = true
	}
	if trace.IsEnabled() {
		c.hold.p.traced(regionCheck, c.walk)
	} else {
		c.walk()
	}
	over = true
	return c.ended
}

// walk runs, or goes on with, the walk. It does not return if user code calls runtime.Goexit.
func (c *check[K]) walk() {
	for !c.steps() {
	}
}

// exit leaves the gate when the walk is over.
func (c *check[K]) exit() {
	c.shard.Gate().Exit(c.answered)
	c.reset()
}

// reset makes c as new and gives it back to the pool.
func (c *check[K]) reset() {
	var none K
	p := c.hold.p
	c.hold.key = nil
	c.shard, c.outcome, c.cause, c.match, c.together = nil, machine.Pending, nil, nil, nil
	c.ended, c.answered, c.n, c.at, c.rest, c.onWorkers, c.looked, c.key = 0, 0, 0, 0, nil, false, false, none
	c.forgetKeys()
	p.checks.Put(c)
}

// steps goes on with the walk. It returns early, with false, if a TryComplete panics.
func (c *check[K]) steps() (done bool) {
	defer func() {
		if v := recover(); v != nil {
			c.hold.p.reportPanic(v, c.hold.Machine, "TryComplete", c.hold.logKey())
		}
	}()
	if c.holding { // the try has panicked
		c.tried(c.hold.retry())
	}
	for {
		for c.at < c.n {
			m := c.ops[c.at]
			c.at++
			if c.outcome == machine.Pending {
				c.try(m)
			} else {
				c.claimFor(m)
			}
		}
		c.endBatch()
		switch {
		case len(c.rest) > 0:
			c.n = copy(c.ops[:], c.rest)
			c.rest = c.rest[c.n:]
		case !c.more:
			return true
		case c.outcome == machine.Pending && c.cursor.Overdue():
			c.handOver() // operations arrive as fast as the walk ends them
			return true
		case !c.looked && c.outcome == machine.Pending && c.hold.p.nested():
			c.handOver() // one look at the stack is cheap beside a long walk
			return true
		default:
			c.looked = true
			c.n, c.more = c.cursor.Next(c.ops[:])
		}
	}
}

// try tries m, unless the same call has tried it under another key.
func (c *check[K]) try(m *machine.Machine) {
	if c.together != nil && !c.together.First(m) {
		return
	}
	if !m.Acquire() { // it has ended, or its holder will try it again
		if !c.looked && m.Outcome() == machine.Pending {
			c.looked = true
			if c.hold.p.nested() { // this goroutine may be the holder
				c.handOver()
			}
		}
		return
	}
	c.hold.take(m)
	c.holding = true
	end, again := c.hold.check(true)
	if again {
		end = c.hold.retry()
	}
	c.tried(end)
}

// tried is called when a try is over. It puts the operation into the batch if it has to end.
func (c *check[K]) tried(end machine.Outcome) {
	if c.holding = false; end != machine.Pending {
		c.collect(c.hold.Machine, end)
	}
}

// claimFor claims m for the outcome of the walk, or leaves a wish to m's holder.
func (c *check[K]) claimFor(m *machine.Machine) {
	p := c.hold.p
	if c.match != nil && !p.matches(c.match, m, c.key) || !p.claim(m, c.outcome, c.cause) {
		return
	}
	if c.collect(m, c.outcome); c.match != nil {
		c.match(m, true)
	}
}

// collect puts m, which the caller holds, among the operations that end with this batch.
func (c *check[K]) collect(m *machine.Machine, o machine.Outcome) {
	if c.ops[c.claimed] != m { // a comparison is cheaper than a write barrier
		c.ops[c.claimed] = m
	}
	c.outcomes[c.claimed] = o
	c.claimed++
}

// countTries counts the tries of a batch.
func (c *check[K]) countTries() {
	h := &c.hold
	tries, wasted := h.tries, h.tries-h.met
	h.tries, h.met = 0, 0
	sampled := c.shard.Tried(tries, wasted)
	if h.key != nil && c.shard.CountsTries() {
		c.shard.KeyTried(c.key, c.hash, tries, wasted)
	}
	if sampled && c.outcome == machine.Pending && !h.p.nests.Load() {
		_ = h.p.nested() // sets nests if checks are nested, even if each enters another gate
	}
}

// endBatch ends the operations in ops that were claimed, and clears ops.
func (c *check[K]) endBatch() {
	if c.hold.tries > 0 {
		c.countTries()
	}
	n := c.claimed
	// Others may end what the batch has left waiting, while a callback blocks: nothing here
	// must keep it in memory then.
	clear(c.ops[n:c.n])
	c.hold.drop()
	c.claimed, c.n, c.at = 0, 0, 0
	if n == 0 {
		return
	}
	defer clear(c.ops[:n]) // also when a callback ends the goroutine
	c.ended += n
	batch := &watchers.Ending{Machines: c.ops[:n], Outcomes: c.outcomes[:n]}
	if c.together != nil {
		c.together.Forget(batch.Machines)
	}
	p := c.hold.p
	var key logKey[K]
	c.name(batch.Machines, &key)
	p.end(c.shard, batch, c.cause)
	if n == 1 {
		p.leaveTimer(batch.Machines[0], batch.Outcomes[0])
	} else {
		p.timer.CancelAll(entriesOf(batch.Machines))
	}
	if c.onWorkers {
		p.hand(batch, &key)
		return
	}
	p.answer(batch, &key)
	c.answered += n
}

// name sets key to the key that the walk is over, or else to the first key of each of
// machines, which the caller holds.
func (c *check[K]) name(machines []*machine.Machine, key *logKey[K]) {
	if c.hold.key != nil {
		key.key = c.key
		return
	}
	c.forgetKeys()
	for _, m := range machines {
		c.keys = append(c.keys, watchers.FirstKey[K](m))
	}
	key.each = c.keys
}

// forgetKeys empties keys, so that the pool keeps no key in memory.
func (c *check[K]) forgetKeys() {
	clear(c.keys)
	c.keys = c.keys[:0]
}

// handOver ends a walk that tries operations without running more user code on this
// goroutine: workers check what has not been tried, and run the callbacks.
func (c *check[K]) handOver() {
	c.onWorkers = true
	if c.holding {
		c.tried(c.hold.leave())
	}
	left := c.at < c.n || c.more || len(c.rest) > 0
	c.at, c.rest = c.n, nil
	c.endBatch()
	if c.more {
		c.cursor.Stop()
		c.more = false
	}
	switch {
	case !left:
	case c.hold.key == nil:
		c.hold.p.SignalAll()
	default:
		c.hold.p.signal(c.key, c.hash, c.upTo, c.together)
	}
}
