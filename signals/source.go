package signals

import (
	"context"
	"errors"

	"github.com/delayedop/purgatory/purgatory"
)

// Unknown is the position of a hint that says only that a key has changed. It reaches
// every wait for the key.
const Unknown = purgatory.EveryPosition

// Sink receives what a source hears. Its methods do not block, and may be called from any
// goroutine. A [Runner] is a Sink.
type Sink[K comparable] interface {
	// Changed delivers a hint: the state of key has changed, and has reached position (an
	// offset or a revision; Unknown if the engine has none).
	Changed(key K, position int64)
	// Missed reports that the source is subscribed from now on, and that earlier hints may
	// have been lost. A source calls it after its first subscription and after each gap,
	// but only when the engine has confirmed the subscription.
	Missed(cause error)
}

// Source is a subscription to an engine.
type Source[K comparable] interface {
	// Run subscribes, and passes what it hears to sink until ctx ends or the subscription
	// breaks; [Runner.Run] then calls it again. A source that can reconnect by itself may
	// instead stay in Run and call Missed, but Stats.Standing is then true throughout the
	// outage. Before Run returns, it ends its subscription and all goroutines that it
	// started; it does not call sink afterwards.
	Run(ctx context.Context, sink Sink[K]) error
}

// Queued is a source whose engine keeps hints in a queue until every subscriber has taken
// them.
type Queued interface {
	// QueueUsed returns how full the queue was when the source last asked, from 0 to 1;
	// negative: it does not know yet.
	QueueUsed() float64
}

// SourceFunc is a function that implements [Source].
type SourceFunc[K comparable] func(ctx context.Context, sink Sink[K]) error

// Run calls f.
func (f SourceFunc[K]) Run(ctx context.Context, sink Sink[K]) error { return f(ctx, sink) }

// Causes of Missed, for errors.Is. A source may use others.
var (
	// ErrSubscribed: the source has subscribed, at first or again, and has not heard what was
	// sent before.
	ErrSubscribed = errors.New("signals: subscribed")
	// ErrOverflow: hints arrived faster than the source took them, and some were dropped.
	ErrOverflow = errors.New("signals: hints were dropped")
)

// Other errors.
var (
	// ErrInvalidOption: an option of To is out of range, or a purgatory or source is nil.
	ErrInvalidOption = errors.New("signals: invalid option")
	// ErrRunning: the Runner is already running a source.
	ErrRunning = errors.New("signals: running already")
	// ErrFinal: a source cannot be run again, because somebody has to change something first.
	// Its error wraps ErrFinal, and ends Runner.Run.
	ErrFinal = errors.New("signals: the source cannot be run again")
	// ErrEnded: a source has returned without an error before its context ended.
	ErrEnded = errors.New("signals: the source has ended")
)
