// Package future gathers results that arrive one by one, from replicas for instance,
// until enough of them are there: Kafka's DelayedFuture, generalised from "all" to
// "all, any, or k of n".
//
//	p, err := purgatory.New[uint64]("appends")
//	…
//	f, err := future.Gather[Ack](p, 500*time.Millisecond, future.Quorum(2, 3), requestID)
//	for i, r := range replicas { // three of them
//		go func() {
//			ack, err := r.Append(ctx, record)
//			f.Deliver(i, ack, err)
//		}()
//	}
//	acks, err := f.Wait(ctx) // nil: two have answered; purgatory.ErrExpired: less, and here they are
//
// # What it guarantees
//
// A future ends exactly once, for one reason: the results that it wants have arrived;
// they can no longer arrive, because too many sources have failed (ErrUnreachable, at
// once, not after the timeout); its timeout has passed; its waiter's context has
// ended; it was cancelled; or its purgatory closed. It then keeps the results that had
// arrived, in order of arrival, and no more: each source delivers once, and a second
// delivery, or one that comes late, is ignored and is told so.
//
// A result that comes with an error is a failure. It is kept with the results, but it
// is none of the k. Where a failure is as good an answer as any other (Kafka's
// DelayedFuture is done when all have answered, whatever they say), make it part of
// the value and deliver it with a nil error.
//
// A future is one operation: one entry in a wheel, no goroutine, no timer of the
// runtime. Only the delivery that decides it has it checked, so no check of it is in
// vain if the first of its keys is its own.
//
// # When to use what
//
//   - One goroutine waits for several calls, all must succeed, and the calls are
//     cancelled when one fails: golang.org/x/sync/errgroup.
//   - A goroutine waits for k of n, or for as many as come in time: Gather and Wait.
//   - A hundred thousand requests wait so, and no goroutine should stand for each:
//     GatherFunc, whose function is called with what has come.
//   - The condition is more than a number (two racks of three, say), or is a state
//     and not a set of answers: write an operation, or purgatory's Await.
//   - Deliver runs what was waiting on the goroutine that delivers. One that holds a
//     lock which the function of GatherFunc might want: Post.
package future
