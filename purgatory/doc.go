// Package purgatory holds requests that cannot be answered yet: a produce that waits
// for its replicas, a fetch that waits for data, a member that waits for its group.
// An operation waits under one or more keys until its condition is met, because
// somebody changed state and called CheckAndComplete, or until its timeout passes.
// Each is answered exactly once.
//
//	request ─► TryCompleteElseWatch ──► met at once ─────────────────────► OnComplete
//	                │ watched under its keys, timed on the wheels               ▲
//	                ▼                                                           │
//	            waiting ◄── not yet ── CheckAndComplete(key), Signal(key) ── met┤
//	                │                                                           │
//	                ├── ForceComplete, Cancel, CancelForKey, Close ─────────────┤
//	                └── timeout ─► a worker ───────────────────────► OnComplete, OnExpiration
//
// # Guarantees
//
//   - Every accepted operation ends exactly once, with one Outcome and one
//     OnComplete; OnExpiration follows for one that expired. One that was not
//     accepted has no callback.
//   - TryComplete of an operation never overlaps itself or its callbacks.
//   - No wake-up is lost: if state changes before CheckAndComplete(key) or
//     Signal(key) is called, everybody who waits for key, or is registering at that
//     moment, is tried with that change visible.
//   - Timeouts are never early, and late by at most one tick plus scheduling.
//   - No lock of the purgatory is held while user code runs. No method waits for another
//     goroutine's TryComplete; only Await, Shutdown and, on the system's clock,
//     AdvanceClock wait at all.
//   - A panic or runtime.Goexit in one callback stops no other operation.
//   - What has ended is referred to no more: it is out of the lists and the wheel when
//     its callbacks run (see "Leaving" for the one exception, and its bound).
//
// # What may be called from where
//
// From TryComplete, OnComplete and OnExpiration anything may be called, on this or any
// purgatory, on the same or another key, but what waits: Await, Shutdown, and
// AdvanceClock on the system's clock. Under a lock of the caller's own that a callback
// might take, call Signal instead of CheckAndComplete; the other verbs run callbacks
// on the caller's goroutine.
//
// # Which callback runs where
//
//	satisfied at registration     the goroutine that registers
//	satisfied by CheckAndComplete the goroutine that calls it
//	satisfied by Signal           a worker
//	forced, cancelled, closed     the goroutine that calls the verb
//	expired                       a worker (on a manual clock: who advances it)
//
// There are two exceptions. What meets a running TryComplete is left to the goroutine
// that runs it. And callbacks that are nested 64 deep are queued for the goroutine that
// is above them on the stack; see "Chains".
//
// # One operation: no blocking, no lost wake-up
//
// The state of an operation is one word, and whoever has set it to busy holds the
// operation: to try it, or to end it. package operation has the picture.
//
//  1. To check: compare-and-swap pending to busy; run TryComplete; on a yes, end it; on
//     a no, compare-and-swap busy to pending.
//  2. Who finds busy does not wait: a check sets the mark "look again" in the same word,
//     by compare-and-swap; force, cancel, expire and close put their outcome there as a
//     wish, the first one wins, and return "not I".
//  3. The compare-and-swap of 1 that lets go fails if there is a mark. The holder then
//     looks again, or carries out the wish. So every mark is seen: it is set only while
//     the word says busy, and the word stops saying busy only without a mark.
//  4. A yes ends the operation whatever marks there are. A no with a wish ends it as
//     wished. Only the holder ends it, so it ends once.
//  5. After eight looks in a row the holder lets go and hands the check to a worker: a
//     TryComplete that signals its own key does not keep its caller for ever.
//
// # Registering
//
// The registering goroutine holds the operation from the first try to the end:
//
//  1. Try. On a yes it has ended, and was never watched.
//  2. Link it under every key. A shard that has closed refuses: everything is undone.
//  3. Try again. A change of state before 2 is seen here; one after 2 comes with a check
//     that finds the operation in its list, and leaves a mark.
//  4. Schedule the timeout.
//  5. Let go, which sees the marks.
//
// Closing marks every shard closed under its lock and then ends what it finds in the
// lists. An operation linked before that is found (and bears the wish "closed", which
// step 5 carries out); one that comes after is refused in step 2.
//
// # Leaving: lists, timer, purge
//
// An operation that ends leaves all its lists at once, in O(1) each, and the timer. A
// batch takes each lock once:
//
//  1. Collect up to 128 operations of the key, under its shard's lock. Unlock.
//  2. Try each. Those that say yes stay held: claimed.
//  3. Unlink all claimed, under the shard's lock. A watch in another shard is unlinked if
//     that shard's lock is free, and left to the purge if not: an ending operation does
//     not wait for somebody else's key.
//  4. Make all outcomes final.
//  5. Take all out of the timer, each of its locks once for a run of them. Then run the
//     callbacks, with no lock held.
//
// At most WithPurgeInterval watches are left at any moment, over all shards; beyond it
// step 3 waits for the lock. The reaper's purge takes them out, at the latest after one
// reap interval, and looks at nothing else: it costs what is stale, not what is pending.
//
// # Chains
//
// A callback that completes another operation, whose callback completes the next, nests.
// Per shard at most 64 goroutines (or frames of one) run callbacks; what ends beyond that
// is queued, one by one, for those that run, which look at the queue before they leave.
// In a chain the one that looks is the frame above: the stack stays as deep as it is, and
// the whole chain has run when the outermost call returns. Should all 64 be goroutines
// that block in their callbacks, the reaper notices a queue that nobody takes from, and
// gives it to a worker.
//
// # The clock
//
// The next wake-up is computed and published under one lock:
//
//  1. Who adds an entry lowers its wheel's "next" under the wheel's lock, and then reads
//     the tick that the clock sleeps on.
//  2. The clock, under its own lock, first sets that tick to "never", then reads every
//     wheel's next, then publishes the minimum. Unlock. Sleep.
//  3. If the clock read a wheel before the entry came, the entry's owner reads "never" or
//     the minimum computed without it: in both cases it is earlier, so it takes the
//     clock's lock, and compares again with what is published by then.
//
// A million entries that expire in one advance lock nobody out: a bucket of the lowest
// wheel moves to the due list in O(1), an overflow bucket is spread over the wheel below
// a chunk at a time, with the lock free in between, and workers claim due entries one by
// one; until then they can be cancelled.
//
// Never early: the clock is read in one place, as time since the timer's start. A
// deadline is rounded up to a tick, once; a bucket is flushed when the time rounded down
// has reached it; whoever claims an entry compares its exact deadline.
//
// Extend notes a later deadline in the entry, and the wheel learns of it when the old one
// passes. Who extends, and who claims a due entry, holds the lock of the entry's wheel:
// either the claim sees the new deadline, or Extend sees the claim. It says no to an
// operation whose registration is not through: the state word says so, and the entry,
// which says which wheel it is, may be written at that moment.
//
// # Locks
//
// Internal locks are held for a few dozen instructions, or one chunk, and never while
// user code runs (a key's hash and equality are not methods). They nest in this order, and
// a lock that is not in an arrow is taken with no other held:
//
//	1  timer.SystemTimer.driver   ─► 2  timer.SystemTimer.flushing
//	                              ─► 3  timer.shard.mu   ─► 4  timer.ManualTimer.mu
//	5  watchers.Shard.mu          ─► 6  watchers.Shard.stale
//	   timer.SystemTimer.clock
//	   DelayedOperationPurgatory.wishes, DelayedOperationPurgatory.rescue
//
// The first two are turns rather than locks: whoever has one starts workers, and so calls
// what WithExecutor was given. That must not wait for anything, so neither for a turn:
// it must not call AdvanceClock.
//
// # Which option when
//
// The defaults serve a broker with hundreds of thousands of waiting requests. Fewer
// shards save memory where there are many small purgatories; these should share a timer
// (WithTimer) as well, for a clock goroutine each. WithMaxPending protects memory;
// WithExecutor puts callbacks on a pool that the server has already.
//
// The wheels are those of Varghese and Lauck, see package timer; the purgatory is Apache
// Kafka's idea.
package purgatory
