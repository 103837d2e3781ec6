package watermark

import (
	"errors"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// ErrClosed is the cause of a [Watermark.Close] without one.
var ErrClosed = errors.New("the watermark is closed")

// Watermark is a position that rises, and that goroutines wait for. It is made by [New] and is safe for
// concurrent use. It holds no goroutine: [Watermark.Close] is for the end of an era, and what is left of
// a watermark without Close is memory.
//
// No wake-up is lost. After Close the position does not change, and nobody gets a yes from later progress; Close leaves
// nobody waiting. Who comes after Recede gets no yes from before it.
type Watermark[K comparable] struct {
	p      *purgatory.Purgatory[K]
	key    K
	at     sched.Int64 // written under mu, until w is closed
	closed sched.Bool  // set once, under mu
	cause  error       // of Close; constant once closed is set

	// No wake-up is lost:
	//
	//  1. Advance raises the position under mu before it checks the key.
	//  2. A goroutine enters a wait under mu, and only if the position is lower. So one that enters
	//     after the rise sees it.
	//  3. One that has entered before is in a wait that is registered, and then the check finds it; or
	//     it, or another goroutine, is about to register it. The purgatory tries the wait after it is
	//     linked.
	//
	// After Close the position does not change, and so nobody gets a yes from later progress:
	//
	//  1. Close sets closed under mu. Advance and Recede change the position under mu, and only if closed is
	//     not set.
	//  2. So after Close every comparison with the position, also one that the purgatory makes, gives the
	//     answer that it gave at Close.
	//  3. Await and StartWait look at closed first. A call that begins after Close returns the cause.
	//
	// Close leaves nobody waiting:
	//
	//  1. Close sets closed and reads the list of all waits in one step, under mu. No goroutine enters a wait later,
	//     because it enters under mu.
	//  2. After that Close cancels each of these waits. One that is pending ends. One that another goroutine is trying
	//     ends when the try has returned.
	//  3. One that its goroutine is still registering may not have been accepted. shared.start looks at closed after
	//     the registration, and cancels it.
	//
	// A goroutine that comes after Recede gets no yes from before it:
	//
	//  1. Recede lowers the position and empties waits in one step, under mu. So a goroutine that comes later does
	//     not enter a wait that was made before, not even if a check has found that wait's position reached and is
	//     about to end it.
	//  2. A wait that is made later is compared with the position only later.
	mu struct { // taken with no other lock of the library held; no other code runs under it
		sched.Mutex
		first   *shared[K]           // one of the waits; see docs/internals/decisions.md#one-wait-needs-no-map
		waits   map[int64]*shared[K] // the others, by position; one that is ending may still be there
		oldest  *crowd               // begins the list of all waits that have not ended, those from before a Recede, too
		newest  *crowd               // ends it
		waiting int                  // members of all these
		counts  Stats                // only the counters
	}
}

// New returns a watermark that stands at a position. Waits are registered in p under key and
// their positions. Other operations may wait under key. Give each watermark a key of its own:
// otherwise each tries the waits of the others in vain. A key that is not equal to itself, as NaN,
// is no key for a watermark: Advance and Close do not find those that wait under it.
func New[K comparable](p *purgatory.Purgatory[K], key K, at int64) *Watermark[K] {
	_ = p.Name() // panics if p is nil
	w := &Watermark[K]{p: p, key: key}
	w.at.Store(at)
	return w
}

// Position returns how far w has come. If w is closed, it is how far w had come at Close.
func (w *Watermark[K]) Position() int64 { return w.at.Load() }

// Waiting returns how many goroutines wait in [Watermark.Await], each counted, and how many waits of
// [Watermark.StartWait] have neither ended nor been stopped.
func (w *Watermark[K]) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.waiting
}

// Advance raises w to a position and wakes the goroutines that wait for it or for a lower one.
// It does nothing if w has come as far already, or is closed.
//
// Advance is CheckAndCompleteUpTo of the purgatory. It does not block. You may hold a lock when you
// call it, unless other operations wait under the key, because Advance calls their TryComplete and
// their callbacks, or a function of WithLogger or WithPanicHandler takes that lock.
func (w *Watermark[K]) Advance(to int64) {
	w.mu.Lock()
	rises := to > w.at.Load() && !w.closed.Load()
	if rises {
		w.at.Store(to)
	}
	w.mu.Unlock()
	if rises {
		w.p.CheckAndCompleteUpTo(w.key, to)
	}
}

// Recede lowers w to a position, as when a log is truncated. Goroutines that wait go on waiting, and
// one that comes later waits until w has risen again. Recede does nothing if w is lower already, or is
// closed. It does not block, and you may hold any lock when you call it.
//
// Recede and Advance take effect one after the other. A goroutine that waits for a position that w has
// reached and left before the check of that Advance may miss it, and waits on. An Advance to a
// position from before the truncation raises w again if it comes after Recede: call both under the lock under
// which the log grows and is truncated.
func (w *Watermark[K]) Recede(to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to < w.at.Load() && !w.closed.Load() {
		w.at.Store(to)
		w.mu.first, w.mu.waits = nil, nil
	}
}

// Err returns why w is closed: the cause that was given to [Watermark.Close], or [ErrClosed] if that is nil. It returns nil
// while w is open.
func (w *Watermark[K]) Err() error {
	if w.closed.Load() {
		return w.cause
	}
	return nil
}

// Close ends w for good, as when a leader steps down: it ends the goroutines that wait, with cause.
// From then on Advance and Recede change nothing, and Await and StartWait return cause, whatever the
// position, also for one that w had reached: who comes late has to ask in the era that follows. A goroutine that
// waits when Close comes still gets nil if w had come as far as its position by then. If cause is nil, it
// is [ErrClosed]. Only the first Close has an effect.
//
// Close ends the waits of w, and nothing else under its key. It does not block. You may hold a lock when you call it,
// unless a function of WithLogger or WithPanicHandler takes that lock.
func (w *Watermark[K]) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	for _, op := range w.shut(cause) {
		w.p.Cancel(op, cause)
	}
}

// shut closes w and returns the operations of the waits that have not ended. It returns none if w is closed already.
func (w *Watermark[K]) shut(cause error) (ops []operation.Operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() {
		return nil
	}
	w.cause = cause
	w.closed.Store(true)
	for c := w.mu.oldest; c != nil; c = c.next {
		ops = append(ops, c.op)
	}
	return ops
}
