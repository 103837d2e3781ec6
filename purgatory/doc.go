// Package purgatory holds requests that cannot be answered yet, and answers each exactly
// once: when a change of state meets its condition, or when its timeout passes.
//
//	p, err := purgatory.New[string]("produce") // one for each kind of request
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//
//	// A request's goroutine: wait until both followers have the record at offset.
//	replicated := func() bool { return partition.HighWatermark() > offset }
//	err = p.Await(ctx, 30*time.Second, replicated, "orders-0")
//	switch {
//	case err == nil: // it is replicated
//	case errors.Is(err, purgatory.ErrExpired): // 30 seconds have passed
//	default: // the client has gone (the cause of ctx), or p is closed (ErrClosed)
//	}
//
//	// A follower's goroutine: change the state first, then say where it has changed.
//	partition.SetHighWatermark(offset + 1)
//	p.CheckAndComplete("orders-0") // while you hold a lock: p.Signal("orders-0")
//
// [DelayedOperationPurgatory.Await] blocks the goroutine that serves the request. The
// function replicated is also called by the goroutines that check the key, so it must be
// safe for concurrent use, and it must not block. (It may lock a mutex that is held only
// briefly.) Where no goroutine can wait for each request, as in an event loop, write an
// operation: it needs one allocation and no goroutine, and its callbacks send the answer.
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
// [github.com/delayedop/purgatory/purgatory/purgatorytest] is for tests of your server. The
// examples below show an HTTP long poll, acks=all, positions, and sessions with heartbeats.
//
// # Guarantees
//
//   - Every accepted operation ends exactly once, with one [operation.Outcome] and one
//     OnComplete; OnExpiration follows if it expired. A refused operation has no
//     callback.
//   - TryComplete of an operation never overlaps itself or the operation's callbacks.
//   - No wake-up is lost. If state changes before a check or a signal of a key, every
//     operation that waits for the key, or is being registered at that moment, is tried
//     with that change visible.
//   - A timeout is never early. While an expiry worker is free it is late by at most one
//     tick plus the time that the runtime takes to schedule the worker.
//   - The purgatory holds no lock while an operation's methods run.
//   - Only the Await functions, Shutdown and, on the system's clock, AdvanceClock block.
//     No other method waits for another goroutine's TryComplete. A method that runs
//     callbacks on its caller's goroutine returns when they have returned.
//   - A panic or runtime.Goexit in one callback stops no other operation.
//   - An operation that ends leaves the timer and its lists before its callbacks run. When
//     they have run, the purgatory does not refer to it, even if the next callback blocks.
//     (Where the lock of a list is contended, the goroutine that holds it takes the entry
//     out when it releases it: see [WithPurgeInterval]. A check that has read the list
//     before refers to the operation for at most seven tries more.)
//
// An Await is an operation, too, with the same guarantees.
//
// # What may be called from where
//
// TryComplete, OnComplete, OnExpiration and the function given to Await may call any
// method that does not block, of this or another purgatory, for the same or another key.
// TryComplete must not block. OnComplete and OnExpiration may. A CheckAndComplete in a
// TryComplete may run the OnComplete of other operations there; if that may block, use
// Signal.
//
// If you hold a lock that an operation's method takes, call only methods that run no
// operation's method: Signal, SignalUpTo, SignalInOrder, Extend, Stats, Waiting
// and the methods that count. Record calls of others under the lock, and make them when it is free.
//
// A check tries up to 128 operations (in order: until the first no), and ends those whose condition is
// met, before it runs the first OnComplete. If operations compete for something, reserve it
// in TryComplete, and release it in OnComplete and where TryCompleteElseWatch returns an error.
//
// # What a condition may read
//
// What it reads needs a lock or an atomic type, unless one goroutine owns it. A goroutine may own
// the state of a purgatory's conditions, as the loop of an actor does, if it makes all
// registrations and all checks, none of them in order, inside a TryComplete or on a stack of over 400 frames,
// and if neither Signal nor Inspect is used, nor [WithFirstInFirstOut]. Then no other goroutine calls TryComplete, whoever
// else ends operations, and whatever expires. In a test, the race detector reports a violation.
// (Package purgatorytest makes one more try of an operation whose timeout has passed.)
//
// A condition should be one comparison, because each check of its key evaluates it. A fetch that
// waits for a number of bytes need not add them up each time: keep the number of bytes that have
// ever been written, and wait for a position in it. (The sum over several logs has no position:
// compare the sum of their counters, under keys without one.) See the examples of
// [DelayedOperationPurgatory.CheckAndCompleteUpTo].
//
// # Which callback runs where
//
//	satisfied at registration        the goroutine that registers
//	satisfied by CheckAndComplete    the goroutine that calls it
//	satisfied by Signal              a signal worker
//	forced, cancelled, closed        the goroutine that calls the method
//	closed by Shutdown               a signal worker
//	expired                          an expiry worker; on a manual clock, the goroutine
//	                                 that advances it
//	expired during registration      a signal worker
//
// A goroutine that makes a check in order runs the callbacks of those that take an item, and of those before them
// whose deadlines have passed. With [WithFirstInFirstOut] a goroutine that registers makes such checks, too.
//
// With [WithCallbacksOnWorkers], signal workers run the callbacks of all but what Close ends. With one
// signal worker, they run one at a time.
//
// There are three exceptions:
//
//   - If another goroutine is trying the operation at that moment, that goroutine ends it
//     and runs its callbacks.
//   - A goroutine whose stack is over 400 frames deep may hand callbacks, and one that is
//     inside a TryComplete may hand a check, to a signal worker.
//   - If a method calls runtime.Goexit, its goroutine ends. Another goroutine goes on with
//     the rest, and nobody waits for it.
//
// The callbacks of the operations that one call ends run one after the other. So a
// callback that blocks holds up its goroutine, with the callbacks that come next there,
// and nothing else: other checks, registrations and waits go on. (A check of more than 128
// operations tries the next ones when the callbacks of the first 128 have returned.)
// Timeouts expire while an expiry worker is free, and signals are checked while a signal
// worker is free.
//
// # Which option when
//
// The defaults suit a server with hundreds of thousands of waiting requests.
//
//   - [WithMaxPending] if clients could exhaust memory.
//   - [WithFirstInFirstOut] if operations compete for items and must get them in order of
//     arrival.
//   - [WithTimer] and [WithoutReaper] if a program has many purgatories: the goroutine that
//     [timer.SystemTimer.Start] starts is then the only one that stays. A purgatory in which nothing
//     expires, because each timeout is [NoTimeout], needs no reaper either. (What else a reaper
//     does, see [WithoutReaper].) The memory of a
//     watcher shard is allocated when a key of it is first used.
//   - [WithLogger] and [WithPanicHandler] in production.
//   - [WithCallbacksOnWorkers] if crowds end together and their callbacks take long.
//   - [WithExpiryWorkers] and [WithSignalWorkers] if many callbacks block at once. If they must
//     run on goroutines of yours, call your pool in OnComplete.
//   - [WithTimeoutsExpected] if it is normal that operations expire: sessions, long polls.
//   - [WithDiagnostics] to see why requests wait: it stands for [WithHistograms], [WithKeyStats],
//     [WithSlowCallback] and [WithStuckStacks].
//
// # Lock order
//
// docs/internals/design.md of the repository has the internal locks and their order. None of them is
// held while user code runs, except that the hash and the equality of a key, which are not
// methods, run under one.
//
// That page also says how the mechanisms work. The purgatory is Apache Kafka's idea; for the
// timing wheels see package timer.
package purgatory
