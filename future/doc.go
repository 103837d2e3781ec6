// Package future gathers results that arrive one by one, for instance from replicas,
// until enough of them have arrived. It is Kafka's DelayedFuture, generalised from "all
// results" to "all, any, or k of n".
//
//	p, err := purgatory.New[uint64]("appends") // one for all futures of a server
//	…
//	f, err := future.Gather[Ack](p, 500*time.Millisecond, future.Quorum(2, 3), requestID)
//	if err != nil {
//		return err
//	}
//	for i, r := range replicas { // three of them
//		go func() {
//			ack, err := r.Append(ctx, record)
//			f.Deliver(i, ack, err)
//		}()
//	}
//	acks, err := f.Wait(ctx)
//	// err is nil: two replicas have the record.
//	// errors.Is(err, purgatory.ErrExpired): acks has what arrived within 500 ms.
//
// # What it guarantees
//
// A future ends exactly once, for one of these reasons:
//
//   - The wanted results have arrived.
//   - They can no longer arrive, because too many sources have failed
//     ([ErrUnreachable]). The future ends at once, not after the timeout.
//   - Its timeout has passed (purgatory.ErrExpired).
//   - The context of a goroutine that waits for it has ended (the context's cause).
//   - It was cancelled (the cause, or purgatory.ErrCancelled if that is nil).
//   - Its purgatory has closed (purgatory.ErrClosed).
//
// A future that has ended keeps the results that had arrived, in the order of their
// arrival. Each source delivers once. A second delivery of a source, and a delivery
// that comes too late, change nothing, and [Future.Deliver] returns false.
//
// A result with an error is a failure. The future keeps it with the results, but it
// does not count towards the k. Where a failure is as good an answer as any other
// (Kafka's DelayedFuture ends when all sources have answered, whatever they say), make
// the failure part of the value and deliver it with a nil error.
//
// A future is one operation of the purgatory: it has one entry in a timing wheel, no
// goroutine, and no timer of the runtime. Only the delivery that decides a future
// checks its first key. So if no other operation waits under that key, no check is
// wasted.
//
// # Errors
//
//   - [Gather] and [GatherFunc] return [ErrInvalidCondition], and the errors of
//     TryCompleteElseWatch: purgatory.ErrClosed, ErrFull, ErrNoKeys.
//     There is no future then.
//   - [Future.Wait], and the function that GatherFunc was given, get the errors in the
//     list above. errors.Is also finds the errors with which sources have failed.
//
// # When to use what
//
//   - One goroutine waits for several calls, all of them must succeed, and the others
//     are cancelled when one fails: golang.org/x/sync/errgroup.
//   - A goroutine waits for k of n results, or for as many as arrive in time: [Gather]
//     and [Future.Wait].
//   - A hundred thousand requests wait like this, and a goroutine for each would be too
//     many: [GatherFunc], whose function is called with the results.
//   - The condition is more than a number (for instance two racks of three), or it is
//     about a state and not about a set of answers: write an operation.Operation, or use
//     Await of the purgatory.
//   - You hold a lock that the function of GatherFunc might take: [Future.Post] instead
//     of [Future.Deliver].
package future
