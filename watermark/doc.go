// Package watermark lets goroutines wait until a position that only rises has come as far as
// theirs: the high watermark of a partition, the applied index of a raft group, the bytes that
// a log has.
//
//	p, err := purgatory.New[string]("fetches") // one for all watermarks of a server
//	…
//	w := watermark.New(p, "orders-0", log.End())
//
//	err := w.Await(ctx, offset+1) // a reader, on its own goroutine
//
//	w.Advance(log.End()) // the writer, when the log has grown
//
// # What is shared
//
// Goroutines that wait for the same position share one operation of the purgatory and one
// channel. However many they are, [Watermark.Advance] looks at one operation, and one close of
// the channel wakes them all at once. Each has a context of its own, and leaves alone. The last
// to leave takes the operation out. Whatever counts operations counts one: Stats, CancelForKey,
// WithMaxPending. (Goroutines that begin at the same moment may register more, until all but one
// are taken out.)
//
// They share the condition, too: it is the position, and nothing else. So a wait has no
// timeout but that of its context, and no value. For these use AwaitAt or AwaitValueAt of the
// purgatory, which give each wait an operation. They are faster where every goroutine waits for a
// position of its own.
//
// # When to use what
//
//   - Many goroutines wait for few positions, as after a write that a crowd of readers waits for:
//     [Watermark].
//   - Each goroutine waits for its own position, or has a timeout or a condition of its own:
//     AwaitAt.
//   - No goroutine waits: an operation.Operation, whose OnComplete answers.
//
// All three may wait under the same key.
package watermark
