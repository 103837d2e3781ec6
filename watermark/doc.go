// Package watermark lets goroutines wait until a position that only rises has come as far as
// theirs: the high watermark of a partition, the applied index of a raft group, the bytes that
// a log has.
//
//	p, err := purgatory.New[string]("fetches") // one for all watermarks of a server
//	…
//	w := watermark.New(p, "orders-0", log.End())
//
//	err := w.Await(ctx, 30*time.Second, offset+1) // a reader, on its own goroutine
//
//	w.Advance(log.End()) // the writer, when the log has grown
//
// A goroutine that selects on other channels, too, takes a [Wait]: see [Watermark.StartWait]. When the log is
// truncated, [Watermark.Recede] lowers the position.
//
// # Eras
//
// A leader steps down while requests wait for their records to be replicated. Its successor may overwrite these
// records, and then the position rises again, by other records. An answer that is derived from that confirms a
// lost write (KAFKA-20634). So give each era a watermark of its own:
//
//  1. A leader makes a watermark for its epoch, under a key that names the partition and the epoch. A request
//     takes the watermark under the lock under which it appends its record, and waits in no other.
//  2. A leader that steps down puts the next watermark in the place of its own, and calls [Watermark.Close] with the
//     reason, before it takes in records of its successor. Requests that wait end with the reason, and so
//     does one that comes late, between its append and its wait, whatever its position.
//  3. Only the progress of an epoch advances its watermark. Readers that want to follow the new leader take
//     the new watermark and wait there.
//
// The example of Watermark.Close does this.
//
// # What is shared
//
// Goroutines that wait for the same position share one operation of the purgatory and one
// channel. However many they are, [Watermark.Advance] looks at one operation, and one close of
// the channel wakes them all at once. Each has a context and a timeout of its own, and leaves alone. The last
// to leave takes the operation out, which the purgatory counts as cancelled, also if its timeout has passed. Whatever counts operations
// counts one: Stats of the purgatory, CancelForKey, WithMaxPending. Goroutines that begin at the same moment register one, too.
// [Watermark.Stats] counts the goroutines: how many wait, for how long, and how many have been served, have given up or have
// timed out. (Those that come after a Recede share no operation with those from before it.)
//
// They share the condition, too: it is the position, and nothing else. So a wait has no value. For that use AwaitAt of
// the purgatory with a condition that notes it: that gives each wait an operation, and is faster where every goroutine waits
// for a position of its own.
//
// A timeout is an entry of the purgatory's timer, beside the operation; a timer that has a maximum counts it.
//
// # When to use what
//
//   - Many goroutines wait for few positions, as after a write that a crowd of readers waits for:
//     [Watermark].
//   - Each goroutine waits for its own position, or has a condition of its own: AwaitAt.
//   - No goroutine waits: an operation.Operation, whose OnComplete answers.
//
// All three may wait under the same key.
package watermark
