// Package signals wakes the waits of a purgatory when state changes in another process.
//
// A message about such a change is a hint. Every engine that carries hints loses some:
// when a connection breaks, when a subscriber is too slow, or when the writer dies between
// its change and its hint. A hint may also be late, or arrive twice. So a wait never
// depends on hints alone:
//
//	subscribe ─► the source hears itself ─► everything that waits is re-checked ─► hints
//	    ▲                                                                          │
//	    └──── the connection breaks, or the source is deaf, with back-off ◄────────┘
//
// The order matters. The re-check sees each change whose hint was sent before the source heard
// itself; each later hint arrives. A re-check before that would miss the changes that are made
// between the two. What the source hears is a probe of its own, which has gone the whole way of
// a hint: that an engine has accepted a subscription does not say that it delivers. While the
// source stands it goes on hearing itself; see [Subscription].
//
// A [Source] is the engine's side: it subscribes, and tells a [Sink] what it hears. The
// modules plugin/nats and plugin/postgres have sources. [To] returns the purgatory's side, a
// [Runner]: it runs a source, restarts it with back-off when it ends, re-checks after each
// gap, and counts all of this. Package signalstest has the tests that every source should
// pass.
//
//	hints, err := signals.To(p)
//	…
//	go hints.Run(ctx, source)
//	…
//	value, err := signals.AwaitRead(ctx, p, timeout, readFromTheDatabase, key)
//
// # What is promised
//
// Each hint that a source hears signals its key. After each gap that a source notices,
// the runner re-checks every wait, once the new subscription is heard. A
// wait whose condition is met therefore ends after one re-subscription and one re-check at
// the latest. A hint, or the re-check after a gap, may come before a read can see the change,
// because a replica answers the read. So the runner repeats them until the lag of [WithLag] has
// passed. A change whose hint is lost without a gap, because its writer died before it, for
// example, is seen at the next re-check or hint of its key: at the next audit ([WithAudit]) at
// the latest, and if there are none, perhaps not before the wait's timeout.
//
// A runner does not read the condition of a wait. A condition that does I/O belongs in
// [AwaitRead], which reads on the waiting goroutine, so that it blocks neither a
// source nor a worker of the purgatory, and which makes a read that fails again.
//
// # Bulk reads
//
// After a gap, ten thousand waits would each read the database. [WithResync] instead reads
// the keys that are waited for in batches of a thousand, into a copy that the conditions
// look at. It covers the waits that exist when the re-check begins. A wait that
// begins later has to read the state itself, as the first read of AwaitRead does: the copy
// may be older than the gap.
package signals
