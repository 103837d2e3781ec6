// Package purgatory holds requests that cannot be answered yet, and answers each
// exactly once: when a change of state meets its condition, or when its timeout
// passes.
//
//	p, err := purgatory.New[string]("produce") // one for each kind of request
//	defer p.Close()
//
//	// A request's goroutine: wait until both followers have the record at offset.
//	replicated := func() bool { return partition.HighWatermark() > offset }
//	err = p.Await(ctx, 30*time.Second, replicated, "orders-0") // nil: it is
//
//	// A follower's goroutine: change the state first, then say where it has changed.
//	partition.SetHighWatermark(offset + 1)
//	p.CheckAndComplete("orders-0") // while you hold a lock: p.Signal("orders-0")
//
// [Purgatory.Await] blocks the goroutine that serves the request. Where no
// goroutine can wait for each request, write an operation: one allocation, whose
// callbacks send the answer.
//
//	type produce struct {
//		operation.DelayedOperation // the state of the wait, embedded by value
//		offset int64
//		reply  chan<- operation.Outcome // buffered
//	}
//
//	func (o *produce) TryComplete() bool { return partition.HighWatermark() > o.offset }
//	func (o *produce) OnComplete()       { o.reply <- o.Outcome() } // however it ended
//	func (o *produce) OnExpiration()     {}                         // after it, if it expired
//
//	_, err = p.TryCompleteElseWatch(&produce{offset: offset, reply: reply}, 30*time.Second, "orders-0")
//
// A condition, TryComplete or the function given to Await, is called by the
// goroutines that check its key. So it must be safe for concurrent use and must
// not block; it may lock a mutex that is held briefly. To hand items to those who wait, see package queue; for tests of
// your server, package purgatorytest. docs/guide.md says which form to use when.
//
// # Guarantees
//
//   - Every accepted operation ends exactly once, with one [operation.Outcome] and
//     one OnComplete; OnExpiration follows if it expired. An Await is an operation, too.
//   - TryComplete never overlaps itself or the operation's callbacks.
//   - No wake-up is lost. If state changes before a check or a signal of a key,
//     every operation that waits for the key, or is being registered at that
//     moment, is tried with that change visible.
//   - A timeout is never early. While an expiry worker is free it is late by at
//     most one tick plus scheduling.
//   - The purgatory holds no lock while your code runs, but to hash and compare keys.
//   - A chain of ends through OnComplete has a bounded stack. Through thousands
//     of purgatories it nests in each.
//   - A panic or runtime.Goexit in one callback stops no other operation.
//   - An operation that has ended leaves the timer and its lists before its
//     callbacks run. (See [WithPurgeInterval] for a contended list.)
//   - Nobody waits for anybody's TryComplete: the operations of a key are tried by one goroutine at a time, see
//     [Purgatory.CheckAndComplete]. A TryComplete that blocks holds up its key.
//
// # What may be called from where
//
// Conditions and callbacks may call any method that does not block, of this or another purgatory, for the same or
// another key. The Await functions, Shutdown and, on the system's clock, AdvanceClock block. TryComplete must not
// block; callbacks may. In a TryComplete use Signal for other keys.
//
// If you hold a lock that an operation's method takes, call only what runs no
// such method: Signal, SignalUpTo, Extend, Stats, Waiting.
//
// # Which callback runs where
//
//	satisfied at registration        the goroutine that registers
//	satisfied by CheckAndComplete    the goroutine that calls it
//	satisfied by Signal              a worker
//	forced, cancelled, closed        the goroutine that calls the method
//	closed by Shutdown               a worker
//	expired                          an expiry worker; on a manual clock, the goroutine
//	                                 that advances it
//	expired during registration      a worker
//
// If another goroutine is trying the operation, or its key, at that moment, that
// goroutine ends it and runs its callbacks. One whose stack is over 400 frames
// deep may hand callbacks to a worker. A callback that blocks holds up other operations
// that the same call has ended, or has yet to try, and nothing else: another check of
// the key tries those.
//
// docs/internals/design.md says how it works. The purgatory is Apache Kafka's idea;
// for the timing wheels see package timer.
package purgatory
