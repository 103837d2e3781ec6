// Package timer runs tasks after a timeout, by the hundred thousand: sharded
// hierarchical timing wheels, the clock that drives them, handles, and a manual
// clock for tests. It is usable on its own.
//
// # Guarantees
//
//   - Never early. A deadline is rounded up to a tick once, when it enters; a
//     bucket is flushed only when the time, rounded down, has reached its tick; and
//     whoever claims an entry compares the exact deadline once more.
//   - Late by at most one tick plus scheduling. After a stall everything that is
//     due is handed over in one go.
//   - Adding and cancelling take O(levels) and O(1), allocate nothing when the
//     caller owns the entry, and are never locked out by expiry: a bucket that
//     is due moves in O(1), one that has to be spread over the wheel below moves
//     in chunks, with the lock released between them.
//   - Cancelling wins or loses cleanly, and says which; so do Extend and Reset.
//   - Tasks run on a bounded number of workers, off the clock's goroutine, with no
//     lock held. A panic in one goes to a handler, and the next one runs.
//   - The clock sleeps until the next bucket that is not empty, or until it has
//     something to place; an idle timer costs nothing. Time is monotonic throughout.
//   - Tasks of one tick run in no particular order.
//
// # An entry's way
//
//	AddAt ─┬─► bucket of level l ──► … ──► bucket of level 0 ──► due ──► worker: RunTask
//	       ▼   ▲    its first tick is reached: placed again    │
//	     young ┘                                               │
//	       └────────── Cancel, Extend: until claimed ──────────┘
//
// Most entries are cancelled soon after they were added. What is due in more than four
// seconds (or four ticks, if they are longer) is young at first: it stands in a list, and
// in no bucket. A second later at most the clock begins to place what is left there;
// what is due comes first.
//
// The wheels are those of G. Varghese and T. Lauck, "Hashed and Hierarchical
// Timing Wheels" (SOSP 1987), scheme 7, with a bitmap of non-empty buckets in
// place of ticking, and the wheels of different shards out of step, so that their
// overflow buckets expire one after the other.
package timer
