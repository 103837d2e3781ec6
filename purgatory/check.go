package purgatory

import (
	"runtime/trace"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

const (
	// batchSize is how many operations are collected, and ended, together.
	batchSize = 128

	// maxLooks is how often one goroutine looks again at one operation because
	// state kept changing while it did. After that a worker looks: an operation
	// whose TryComplete signals its own key would keep its caller for ever.
	maxLooks = 8
)

// CheckAndComplete tries every operation that waits for key, in the order in which
// they came, and ends those whose condition is met: call it after the state that
// they wait for has changed. It returns how many it ended. Their callbacks run on
// this goroutine, after all of a batch have been ended; no lock of the purgatory is
// held, but the caller's own locks are. A caller that holds any, use Signal.
//
// An operation that another goroutine is trying at this moment is left to that one,
// which looks again. It does not block.
func (p *DelayedOperationPurgatory[K]) CheckAndComplete(key K) (completed int) {
	return p.CheckAndCompleteUpTo(key, Everything)
}

// CheckAndCompleteUpTo is CheckAndComplete for a key that has come as far as
// position: of the operations that wait for a position on it, only those at or below
// are tried, in order of position; those that wait for none are all tried, before
// them. The cost does not depend on how many wait further up.
func (p *DelayedOperationPurgatory[K]) CheckAndCompleteUpTo(key K, position int64) (completed int) {
	return p.each(key, position, nil)
}

// CancelForKey ends every operation that waits for key, wherever else it waits, as
// cancelled with cause, and returns how many it ended. Callbacks run as those of
// CheckAndComplete do. Of an operation that another goroutine is trying at this
// moment the cancellation is left to that one, unless the try says yes.
func (p *DelayedOperationPurgatory[K]) CancelForKey(key K, cause error) (cancelled int) {
	return p.each(key, Everything, &cause)
}

func (p *DelayedOperationPurgatory[K]) each(key K, upTo int64, cause *error) int {
	hash := p.watchers.Hash(key)
	s := p.watchers.Shard(hash)
	c := p.checks.Get().(*check[K])
	c.shard, c.cause = s, cause
	c.n, c.more = s.Begin(&c.cursor, key, hash, upTo, c.ops[:])
	if cause != nil {
		c.outcome = operation.Cancelled
	}
	return c.finish()
}

// check is a walk over operations that tries each, or claims each for another
// outcome, and ends them batch by batch: claim all, unlink all, then run callbacks.
// It keeps its place outside the stack, so that it can go on after a panic.
type check[K comparable] struct {
	p       *DelayedOperationPurgatory[K]
	shard   *watchers.Shard[K]
	outcome operation.Outcome // Pending: try them; else end all as this
	cause   *error            // of Cancelled
	ended   int

	// ops[:claimed] are held, to be ended as outcomes say; ops[at:n] are still to be
	// looked at.
	ops      [batchSize]*operation.Machine
	outcomes [batchSize]operation.Outcome
	claimed  int
	at, n    int
	more     bool
	rest     []*operation.Machine // after ops, if they come from Close

	cursor watchers.Cursor[K] // after ops, if they come from a key

	holding bool // ops[at] is held, and being tried
	looks   int
	run     int64
	no      int64
}

// finish runs the check to its end, hands it back to the pool, and returns how
// many it ended.
func (c *check[K]) finish() (ended int) {
	if c.n > 0 || c.more {
		if trace.IsEnabled() {
			c.p.traced(regionCheck, c.complete)
		} else {
			c.complete()
		}
	}
	ended = c.ended
	p := c.p
	c.shard, c.outcome, c.cause, c.ended, c.n, c.at, c.rest = nil, operation.Pending, nil, 0, 0, 0, nil
	p.checks.Put(c)
	return ended
}

// complete goes on until the walk is over, whatever user code does.
func (c *check[K]) complete() {
	for !c.proceed() {
	}
}

func (c *check[K]) proceed() (done bool) {
	normal := false
	defer func() {
		if normal {
			return
		}
		v := recover()
		if c.holding {
			c.saidNo()
		}
		if v != nil {
			guard.Report(v, c.p.panicked, c.complete)
		} else { // runtime.Goexit: this is the last chance for the others
			c.complete()
		}
	}()
	c.walk()
	normal = true
	return true
}

func (c *check[K]) walk() {
	for {
		for c.at < c.n {
			if c.outcome == operation.Pending {
				c.try()
			} else {
				c.claimNext()
			}
		}
		c.endBatch()
		switch {
		case len(c.rest) > 0:
			c.n = copy(c.ops[:], c.rest)
			c.rest = c.rest[c.n:]
		case c.more:
			c.n, c.more = c.cursor.Next(c.ops[:])
		default:
			return
		}
	}
}

// try tries the next operation, or tries the held one again.
func (c *check[K]) try() {
	m := c.ops[c.at]
	if !c.holding {
		if m.Acquire() != operation.Held {
			c.at++ // ended, or its holder looks again
			return
		}
		c.holding, c.looks = true, 0
	}
	c.run++
	if c.p.try(m.Operation()) {
		c.claim(m, operation.Satisfied)
		return
	}
	c.saidNo()
}

// saidNo lets go of the held operation, or does what was asked of its holder.
func (c *check[K]) saidNo() {
	c.no++
	m := c.ops[c.at]
	if m.ReleaseUnmarked() {
		c.holding = false
		c.at++
		return
	}
	c.looks++
	var key K
	var hash uint64
	patient := c.looks < maxLooks
	if !patient {
		key, hash = watchers.KeyOf[K](m) // while it is held
	}
	switch verdict, wish, relook := m.Release(patient); verdict {
	case operation.LookAgain:
	case operation.Carry:
		c.claim(m, wish)
	default:
		c.holding = false
		c.at++
		if relook {
			c.p.signal(key, hash, Everything)
		}
	}
}

// claimNext takes the next operation to end it, or leaves that to its holder.
func (c *check[K]) claimNext() {
	m := c.ops[c.at]
	if !c.p.claim(m, c.outcome, c.cause) {
		c.at++
		return
	}
	c.claim(m, c.outcome)
}

// claim puts m, which is held, among those that end with this batch.
func (c *check[K]) claim(m *operation.Machine, o operation.Outcome) {
	if c.claimed != c.at { // a pointer written less is worth a comparison while the collector marks
		c.ops[c.claimed] = m
	}
	c.outcomes[c.claimed] = o
	c.claimed++
	c.at++
	c.holding = false
}

// endBatch ends what was claimed of the operations in ops, and forgets them all.
func (c *check[K]) endBatch() {
	if c.run > 0 {
		c.shard.Tried(&c.cursor, c.run, c.no)
		c.run, c.no = 0, 0
	}
	n, collected := c.claimed, c.n
	c.claimed, c.n, c.at = 0, 0, 0
	defer clear(c.ops[:collected])
	if n == 0 {
		return
	}
	c.ended += n
	batch := watchers.Ending{Machines: c.ops[:n], Outcomes: c.outcomes[:n]}
	run := c.shard.Leave(batch)
	c.p.settle(batch, c.cause)
	c.p.timer.CancelAll(operation.Entries(batch.Machines))
	c.p.answer(c.shard, batch, run)
}
