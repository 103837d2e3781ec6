// Package timer runs tasks after a timeout, for hundreds of thousands of them: sharded hierarchical timing
// wheels, the clock that drives them, handles, and a clock that the program moves. It can be used alone.
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
// AfterFunc allocates a [Handle]. A program with many timeouts embeds a [TaskEntry] in its own objects and
// calls AddAt, Cancel and Extend.
//
// # Guarantees
//
//   - Never early; late by at most one tick plus scheduling, while a goroutine drives the timer and a worker is
//     free. After a stall, all that is due is handed over at once. Clocks are monotonic.
//   - Adding and cancelling take O(1), and allocate for the first entry of a shard or a level only. A million
//     entries that expire at once lock nobody out.
//   - Cancel, Extend and Reset take effect, or report that they came too late.
//   - Tasks run with no lock of the timer held, those of one tick in no order: see [Task]. A panic goes to the
//     panic handler, and the next task runs.
//
// # The path of an entry
//
//	AddAt ─┬─► bucket of level l ──► … ──► bucket of level 0 ──► due ──► worker: RunTask
//	       ▼   ▲    its first tick is reached: a level down    │
//	     young ┘                                               │
//	       └────────── Cancel, Extend: until claimed ──────────┘
//
// Most entries are cancelled soon: one that is due in more than four seconds is young, in no wheel, for up to a second.
//
// The wheels are those of G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme
// 7, with bitmaps in place of ticking.
package timer
