package timer

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/sched"
)

// store is what SystemTimer and ManualTimer share: the wheels and all methods on entries.
type store struct {
	config
	id      uint32     // of the entries that it owns
	base    time.Time  // of a SystemTimer: when it was made
	stopped sched.Bool // Stop was called
	// A power of two of them, each made when its first entry comes. Not explored: a loop has a point for each.
	shards []atomic.Pointer[shard]

	clock clock // the timer that embeds the store

	// wake is the time, in ns, until which the driver sleeps, or has last slept; 1 before its first sleep, and in a
	// ManualTimer. In a shared timer it is when the alarm goes off, or did last: see driveOnce.
	//
	// The driver does not sleep past an earlier deadline:
	//
	//  1. Who adds an entry lowers its shard's next, and then reads wake. If its own time is earlier, it puts the
	//     token in that ends the driver's next sleep.
	//  2. The driver writes the earliest next to wake, and then reads every next again. If one is earlier, it
	//     begins anew.
	//  3. If 2 has read a next before 1 lowered it, or before its shard was made, 1 reads the wake of 2, or a
	//     later one.
	wake sched.Int64

	overdue  sched.Int64 // when a sleeping driver will be late, in ns; otherwise never
	called   sched.Bool  // a worker is to stand in for it
	standing sched.Bool  // one does

	_ [64]byte // separates what every addition reads from what workers write

	ready   sched.Int64   // shards that are ready, or fewer
	from    atomic.Uint32 // where the next worker begins to look for a ready one; not explored: any will do
	pending sched.Int64   // counted only if maxPending > 0
}

// clock is what a store needs of its timer.
type clock interface {
	read() time.Duration // is called with a shard's lock held, too
	need(at int64)       // 0: an entry is due; otherwise one is due then, before wake
	advance(stop <-chan struct{}, d time.Duration) bool
	end() // is called once, when the timer has been stopped
}

// AdvanceClock lets up to d of time pass, and reports whether an entry's tick has come, also that of an entry that was
// extended since.
//
// A [SystemTimer] waits until one has, and hands all due entries to the workers. It returns false when d has passed
// or the timer stops. Of several callers one drives, and the others wait.
//
// A [ManualTimer] moves its clock by d, and runs each task at the tick at which it expires: true says that one ran.
// AdvanceClock(0) runs what is due. A negative d panics. While another AdvanceClock is in progress, also around this
// one, it adds d to the distance of that one and returns false at once. The clock stops before [Never].
func (t *store) AdvanceClock(d time.Duration) bool { return t.clock.advance(nil, d) }

// AdvanceClockUntil is AdvanceClock that returns false when stop is closed. On a stopped SystemTimer it waits for
// stop or d. A ManualTimer does not move then.
func (t *store) AdvanceClockUntil(stop <-chan struct{}, d time.Duration) bool {
	return t.clock.advance(stop, d)
}

// Now returns the time since the timer's start: of a [ManualTimer], how far its clock has moved, in a task to the first
// tick at or after the deadline, or to the time of a later addition.
//
// On the other side of the border of a testing/synctest bubble than where a [SystemTimer] was made, what adds or
// extends an entry, AdvanceClock and Here panic.
func (t *store) Now() time.Duration { return t.clock.read() }

// Here is Now that panics beyond a bubble's border.
func (t *store) Here() time.Duration { return t.checked(t.clock.read()) }

// checked returns now, which may be any value, or panics.
func (t *store) checked(now time.Duration) time.Duration {
	if uint64(now) > uint64(decade) {
		now = t.check(now)
	}
	return now
}

// decade is less than lies between the times of a bubble, from 2000 on, and those outside.
const decade = 10 * 365 * 24 * time.Hour

// check panics if such a reading is beyond the border: a time of a bubble has no monotonic reading.
func (t *store) check(now time.Duration) time.Duration {
	if !t.base.IsZero() && sched.InBubble() != (t.base == t.base.Round(0)) { //nolint:staticcheck // Equal would compare what Round keeps
		panic(sched.ErrBorder)
	}
	return max(now, 0)
}

const maxShards = 256 // an entry has eight bits for its shard

// defaultShards returns eight for each processor, rounded up: see docs/internals/decisions.md#shards.
func defaultShards() int {
	n := min(8*runtime.GOMAXPROCS(0), maxShards)
	return 1 << bits.Len(uint(n-1))
}

// shardOf returns the shard of e, nil before the first entry has come there.
func (t *store) shardOf(e *entry.Entry) *shard { return t.shards[e.Shard(len(t.shards))].Load() }

func (t *store) makeShard(e *entry.Entry) *shard {
	i := e.Shard(len(t.shards))
	t.shards[i].CompareAndSwap(nil, newShard(i, &t.config)) // if it fails, another goroutine has made it
	return t.shards[i].Load()
}

// made yields the shards that have been made.
func (t *store) made(yield func(*shard) bool) {
	for i := range t.shards {
		if s := t.shards[i].Load(); s != nil && !yield(s) {
			return
		}
	}
}

// Entries implements [Timer].
func (t *store) Entries() *Entries { return t }

// Pending returns the number of scheduled entries that no worker has claimed.
func (t *store) Pending() (n int) {
	for s := range t.made {
		s.mu.Lock()
		n += int(s.mu.pending)
		s.mu.Unlock()
	}
	return n
}

// Stop stops the timer for good, cancels all pending entries and returns what they stand for, in no order: each
// [Task] and each [*Handle], but no operation of a purgatory. Tasks that workers have claimed still run; Stop does
// not wait for them, and may be called from a task. Stopping again returns nothing.
func (t *store) Stop() (unfired []any) {
	// No entry stays: who adds one reads stopped with the lock of its shard held. If that is false, the shard was made
	// before Stop looks for it.
	if t.stopped.Swap(true) {
		return nil
	}
	for s := range t.made {
		s.mu.Lock()
		for bucket, _, _ := s.mu.wheel.next(); bucket != nil; bucket, _, _ = s.mu.wheel.next() {
			s.mu.spill.Take(bucket)
		}
		for _, list := range [...]*entry.List{&s.mu.spill, &s.mu.young, &s.mu.due} {
			for !list.Empty() {
				e := list.First()
				t.cancelLocked(s, e)
				if e.OfOperation() {
					continue
				}
				task := any(taskEntry(e).bound)
				if _, ok := task.(function); ok {
					task = handleOf(taskEntry(e))
				}
				unfired = append(unfired, task)
			}
		}
		t.release(s, never)
	}
	t.clock.end()
	return unfired
}
