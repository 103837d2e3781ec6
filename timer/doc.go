// Package timer runs tasks after a timeout, for hundreds of thousands of pending timeouts:
// sharded hierarchical timing wheels, the clock that drives them, handles, and a manual
// clock for tests. It can be used without the other packages of this module.
//
//	t, err := timer.NewSystemTimer()
//	…
//	t.Start()
//	defer t.Stop()
//	h, err := t.AfterFunc(30*time.Second, func() { fmt.Println("timed out") })
//	…
//	h.Extend(30 * time.Second) // a heartbeat: 30 seconds from now
//	h.Stop()                   // an answer: the function does not run
//
// AfterFunc allocates a [Handle]. A program that adds many timeouts embeds a [TaskEntry] in
// its own objects and calls AddAt, Cancel and Extend (see [Timer]).
//
// # Guarantees
//
//   - Never early. The timer rounds a deadline up to a tick once, when the entry is added.
//     It flushes a bucket only when the time, rounded down to a tick, has reached that
//     tick. The worker that claims an entry compares the exact deadline with the clock.
//   - Late by at most one tick plus scheduling, while a goroutine drives the timer and a
//     worker is free. After a stall, the timer hands over everything that is due at once.
//   - Adding takes O(levels) and cancelling O(1). Neither allocates if the caller owns the
//     entry, except that the first entry of a shard allocates the shard, and the first entry
//     that needs a further level allocates its buckets.
//     Expiry does not lock them out: a due bucket moves in O(1), and the timer spreads an
//     overflow bucket over the wheel below in chunks and releases the lock between two
//     chunks.
//   - Cancel, Extend and Reset either take effect or report that they came too late.
//   - Tasks run with no lock of the timer held: those of a [SystemTimer] on a bounded number
//     of workers, those of a [ManualTimer] on the goroutine that advances its clock. A panic
//     in a task goes to the panic handler, and the next task runs.
//   - The driver of a SystemTimer sleeps until the next non-empty bucket expires, or until
//     it has to put young entries into a wheel. Clocks are monotonic.
//   - Tasks of one tick run in no particular order.
//
// # The path of an entry
//
//	AddAt ─┬─► bucket of level l ──► … ──► bucket of level 0 ──► due ──► worker: RunTask
//	       ▼   ▲    its first tick is reached: one level down  │
//	     young ┘                                               │
//	       └────────── Cancel, Extend: until claimed ──────────┘
//
// Most entries are cancelled soon after they were added. An entry that is due in more than
// four seconds is young at first: it is in a list of its shard and in no bucket of a wheel. Within
// one second, the driver begins to put the entries that are still there into the wheel; it handles
// due entries first.
//
// The wheels are those of G. Varghese and T. Lauck, "Hashed and Hierarchical
// Timing Wheels" (SOSP 1987), scheme 7, with two changes. A bitmap of non-empty buckets
// replaces ticking. The wheels of different shards are out of step, so that their overflow
// buckets expire one after the other.
//
// # Locks
//
// The timer holds a shard's lock for a few dozen instructions, or for a few hundred entries
// at most (for some milliseconds, if a wheel has a million buckets). Only two methods hold it longer: [Inspect] until it has counted about a thousand
// entries, some ten microseconds, and Stop until it has removed all of the shard. It never calls
// user code with a shard's lock held, and the driver of a SystemTimer calls none.
package timer
