package signals

import (
	"context"
	"errors"
	"time"

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
	// Missed reports that hints may have been lost. A source calls it after each gap. A source
	// that cannot hear itself also calls it after its first subscription and after each later
	// one, but only when the engine has confirmed the subscription: it then stands.
	Missed(cause error)
	// Subscribed reports that the engine has accepted a subscription. The source stands, and
	// everything is re-checked, when the first probe of s has come back.
	Subscribed(s Subscription)
	// Heard reports that the probe with this number has come back, on the way that hints take.
	Heard(probe uint64)
}

// Subscription is how a source hears itself. An engine may accept a subscription and deliver
// nothing: because a pooler, a mirror or a proxy stands between, for example, or because a
// right was taken away. So the [Runner] sends probes through the engine, and trusts nothing but
// their return.
type Subscription struct {
	// Probe sends a probe the whole way that a hint travels; the source calls [Sink.Heard] when
	// it comes back. Probe may block until ctx ends, together with the context of Run at the
	// latest. There is one call at a time, on a goroutine of the Runner, and it may still be
	// under way when Run returns. If it returns an error while the subscription stands, the Runner ends the context of Run
	// with that error.
	Probe func(ctx context.Context, probe uint64) error
	// Every is how often the Runner sends a probe. Until the first one has come back it sends
	// them more often, after pauses that double, from 100 ms.
	Every time.Duration
	// Limit is how old the last answer may be. The source does not stand when it is older, and
	// the Runner ends the context of Run with an error that is [ErrDeaf]. Limit is longer than
	// Every, and it is the longest time for which a source can stand and be deaf.
	Limit time.Duration
	// Audit, if it is not 0, is the longest interval between audits by default, where the engine may
	// lose a hint without the source's noticing. [WithAudit] overrides it.
	Audit time.Duration
	// Blind says which changes the engine sends no hints for, as it is set up now; empty: none.
	// The Runner logs it, and Stats shows it. Only an audit ends the waits for such a change.
	Blind string
}

// Source is a subscription to an engine.
type Source[K comparable] interface {
	// Run subscribes, and passes what it hears to sink until ctx ends or the subscription
	// breaks; [Runner.Run] then calls it again. A source that can reconnect by itself may
	// instead stay in Run and call Subscribed again. Before Run returns, it ends its
	// subscription and all goroutines that it started; it does not call sink afterwards. It
	// returns the cause of ctx, perhaps with more of what it knows.
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
	// ErrDeaf: no probe of the source has come back for too long, or it could not send one. It is
	// the cause of the end of a source's context.
	ErrDeaf = errors.New("signals: the source does not hear itself")
	// ErrEnded: a source has returned without an error before its context ended.
	ErrEnded = errors.New("signals: the source has ended")
)
