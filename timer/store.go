package timer

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/sched"
)

// store is the part that SystemTimer and ManualTimer share: the sharded wheels and all
// methods on entries. It is safe for concurrent use. It waits for no goroutine, and starts none
// but stand-ins. Through function fields it reads the clock of the timer that embeds it, and
// tells that timer that the driver is needed earlier or that an entry is due.
type store struct {
	id         uint32 // the owner in the binding of entries that this timer accepted
	shardCount uint32 // how many shards there may be, a power of two
	tick       int64  // in ns
	shards     atomic.Pointer[shardTable]
	making     struct { // level 8 of the lock order, see docs/design.md
		sched.Mutex
		stopped bool // shards to come are stopped
	}
	wheelSize  int32
	maxPending int64
	grace      time.Duration // see WithStallGrace
	panicked   guard.Handler

	now    func() time.Duration   // reads the clock; Extend and popLocked call it with a shard's lock held
	needed func(expiration int64) // 0: an entry is due, start a worker; otherwise the driver is needed at this tick

	// wake is the tick until which the driver sleeps, or has last slept; 1 before it has
	// slept for the first time, and always in a ManualTimer. So 0, which stands for an
	// entry that is due, is earlier, and no tick of a bucket is.
	//
	// The driver does not sleep past an earlier deadline:
	//
	//  1. A goroutine that adds an entry lowers its shard's next and then reads wake. If its
	//     tick is earlier, it lowers wake with a compare-and-swap, and puts the token in
	//     that ends the driver's next sleep.
	//  2. The driver sets wake to scanning, reads every shard's next, and with a
	//     compare-and-swap sets wake from scanning to the minimum.
	//  3. If the driver read that next before 1 lowered it, or read the table before 1
	//     put the shard in, then the adding goroutine
	//     reads scanning, or the minimum that was computed without its entry, or the tick
	//     of a third goroutine that has lowered wake since. Either its own tick is earlier,
	//     and it puts the token in, or the third goroutine does.
	wake sched.Int64

	// overdue is the time, in ns, from which on a sleeping driver is late; never while
	// the driver is awake, and in a ManualTimer. A goroutine that adds an entry after that
	// time calls callStandIn.
	overdue  sched.Int64
	standIns sched.Int64 // number of stand-ins

	_ [64]byte // separates the fields that every addition reads from those that workers write

	// ready has bit i set whenever shards[i].mu.due is not empty and that shard's lock is
	// free. The bit may stay set after the last due entry was cancelled, until a worker
	// looks. It is written with that lock held.
	ready   sched.Uint64
	turn    atomic.Uint32 // the shard at which the next worker begins to look for a bit
	pending sched.Int64   // counted only if maxPending > 0
}

func (t *store) init(cfg config) {
	t.id = identity.New()
	t.tick = int64(cfg.tick)
	t.maxPending, t.grace = int64(cfg.maxPending), cfg.grace
	t.panicked = cfg.panicked
	t.wake.Store(1)
	t.overdue.Store(never)
	t.shardCount, t.wheelSize = uint32(cfg.shards), int32(cfg.wheelSize)
	t.shards.Store(&noShards)
}

// shardTable is the table of a timer's shards. Each is made when its first entry comes, so that a
// timer that is not used weighs little.
type shardTable [maxShards]atomic.Pointer[shard]

const maxShards = 64 // one word holds the ready bits of all shards

// noShards is the table of every timer that has not been used. Nothing is written to it.
var noShards shardTable

// makeShard returns the shard with the given index, and makes it unless another goroutine has.
func (t *store) makeShard(index uint32) *shard {
	t.making.Lock()
	defer t.making.Unlock()
	table := t.shards.Load()
	if table == &noShards {
		table = new(shardTable)
		t.shards.Store(table)
	}
	s := table[index].Load()
	if s == nil {
		s = newShard(int(index), time.Duration(t.tick), int(t.wheelSize), int(t.shardCount))
		s.mu.stopped = t.making.stopped
		table[index].Store(s)
	}
	return s
}

// operationShard makes the shard of e, if e is an operation's: Extend may schedule it, and Cancel notes
// that nobody must. It returns nil if e is a task's. Then t has not accepted it.
func (t *store) operationShard(e *entry.Entry) *shard {
	if !e.OfOperation() {
		return nil
	}
	return t.makeShard(e.Shard(t.shardCount))
}

// made yields the shards that have been made.
func (t *store) made(yield func(*shard) bool) {
	table := t.shards.Load()
	for i := range t.shardCount {
		if s := table[i%maxShards].Load(); s != nil && !yield(s) {
			return
		}
	}
}

// core returns the part of the timer that Inspect and Due look at.
func (t *store) core() *store { return t }

// defaultShards returns eight for each processor, rounded up to a power of two, at most 64.
// That keeps lock contention low.
func defaultShards() int {
	n := min(8*runtime.GOMAXPROCS(0), maxShards)
	return 1 << bits.Len(uint(n-1))
}

// shardOf returns the shard of e in t; nil if it has not been made.
func (t *store) shardOf(e *entry.Entry) *shard {
	return t.shards.Load()[e.Shard(t.shardCount)%maxShards].Load()
}

// ownsLocked reports whether the lock of e's shard in t guards e: t has accepted e, or an
// operation owns e, whose purgatory adds it to no other timer. If e belongs to another
// timer, or to none yet, only its binding may be read; locks of that timer guard the other
// fields.
func (t *store) ownsLocked(e *entry.Entry) bool { return e.OwnedBy(t.id) }

// AddAt schedules task to expire at deadline, a time on the timer's clock (see [Deadline]).
// now is a recent reading of this timer's Now, never a later time. An entry whose deadline
// is not after now is due at once; its task does not run inside AddAt.
//
// AddAt takes O(levels) and does not block.
//
// Errors, after which nothing has changed:
//
//   - [ErrNoTask]: task is not bound.
//   - [ErrForeign]: task belongs to another timer.
//   - [ErrScheduled]: task is scheduled already.
//   - [ErrFull]: the limit of [WithMaxPending] is reached.
//   - [ErrStopped]: the timer was stopped.
func (t *store) AddAt(task *TaskEntry, now, deadline time.Duration) error {
	e := &task.entry
	s := t.shardOf(e)
	if s == nil {
		s = t.makeShard(e.Shard(t.shardCount))
	}
	s.mu.Lock()
	if s.mu.stopped || t.maxPending != 0 || !t.ownsLocked(e) || e.Next != nil { // rare
		if err := t.admitLocked(s, e); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	at, since := within(deadline), max(int64(now), 0) // a caller may pass any value
	e.At = at
	expiration := int64(never)
	switch {
	case deadline <= now:
		s.mu.due.pushBack(e) // due now, not at the end of the tick
		expiration = 0
	case at-since > s.far && at-s.mu.youngAt > s.far/2: // see youngFor
		s.mu.young.pushBack(e)
		if s.mu.youngAt == 0 {
			s.mu.youngAt = since + s.youngWait
			expiration = s.youngTick()
		}
	default:
		s.catchUpLocked(since)
		expiration = s.placeLocked(e)
	}
	s.mu.pending++
	t.placedLocked(s, expiration)
	s.mu.Unlock()
	t.placed(expiration)
	if overdue := t.overdue.Load(); int64(now) > overdue {
		t.callStandIn(overdue)
	}
	return nil
}

// Pending returns the number of scheduled entries, including those that are due and not yet
// claimed by a worker. It takes the lock of each shard in turn.
func (t *store) Pending() (n int) {
	for s := range t.made {
		s.mu.Lock()
		n += int(s.mu.pending)
		s.mu.Unlock()
	}
	return n
}
