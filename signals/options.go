package signals

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/logging"
)

// Option configures a [Runner].
type Option func(*config)

type config struct {
	name               string
	resync             any // func(context.Context, []K) error
	limit              time.Duration
	lag                time.Duration
	audit              time.Duration
	auditByCost        bool
	spread             time.Duration
	spreadByCost       bool
	minPause, maxPause time.Duration
	logger             *slog.Logger
	records            *logging.Handler // behind logger
}

// WithName sets the runner's name in logs and statistics. Default "signals".
func WithName(name string) Option { return func(c *config) { c.name = name } }

// WithResync sets a function that the runner calls before each re-check, with all keys
// that are waited for, in batches of at most 1000. The function reads their state in bulk
// into a copy that the conditions of the waits look at, so that the waits need not read
// one by one. Each call runs on a goroutine of the runner and may block until its ctx ends,
// with that of [Runner.Run] or after the time limit of [WithResyncLimit]. The slice is the function's.
//
// The runner signals the keys that were read, and calls the function again, after a pause,
// for those that were not. These are all keys of the call after an error or a panic, and
// those that the error names if it is or wraps an [UnreadError]. K must be the purgatory's key type.
func WithResync[K comparable](read func(ctx context.Context, keys []K) error) Option {
	return func(c *config) { c.resync = read }
}

// WithResyncLimit sets how long a call of the function of [WithResync] may take. A call that
// has not returned one second later counts as failed. The runner waits for it no longer, and
// signals all keys without a bulk read until it returns. Default 30 s.
func WithResyncLimit(d time.Duration) Option { return func(c *config) { c.limit = d } }

// WithLag sets how long after a hint or a gap a read may still return the state from before
// it, because a replica or a standby answers the read. The runner signals the key of a hint
// again after pauses that grow, the first 10 to 20 ms (or lag to twice lag, if that is less) and the
// last at least lag after the hint, and after a gap it re-checks everything again likewise. For a wait that is not met,
// and that is not for a later position, each of them causes one more read: five with the
// default. Default 2 s; 0: none, for a state that every read sees before the hint is sent.
// [Runner.Saw] tells how long reads lag.
func WithLag(lag time.Duration) Option { return func(c *config) { c.lag = lag } }

// WithAudit sets the interval at which the runner re-checks everything, as if hints had
// been lost: a source may not notice that a hint was lost, and a writer can die between its
// change and its hint. Each interval is shortened at random by up to one half, so that processes do
// not audit all at once, and begins anew after each re-check. Default: one millisecond for each key that is waited for,
// but at least 5 s and at most 1 minute, so that an audit causes about 1,000 reads a second, or
// at most what the source asks for: see [Subscription]. 0: off.
func WithAudit(every time.Duration) Option {
	return func(c *config) { c.audit, c.auditByCost = every, false }
}

// WithSpread sets the longest time by which the re-check after a gap is put off, at random: a thousand
// processes that lose one server do not read all at once. Default: 100 ms for each thousand keys that
// are waited for, but at most 5 s, so that a gap causes about 10,000 reads a second. 0: none.
func WithSpread(longest time.Duration) Option {
	return func(c *config) { c.spread, c.spreadByCost = longest, false }
}

// WithBackoff sets the first and the longest pause before the runner restarts a source
// that has ended. The pause doubles each time. It starts from the first one again after a
// source has been subscribed for at least as long as the last pause. Each pause is shortened
// at random by up to one half, so that replicas do not reconnect all at once. Default
// 20 ms, 1 s.
func WithBackoff(first, longest time.Duration) Option {
	return func(c *config) { c.minPause, c.maxPause = first, longest }
}

// WithLogger sets the logger; see the Event constants. A handler that blocks holds up nothing but the records: 256 wait
// for it, and more are counted. Default: the runner does not log.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// The messages of the records that the runner logs. Each record has the attribute
// "signals", the runner's name.
const (
	// EventStanding: the source has subscribed for the first time. Info.
	EventStanding = "signals.standing"
	// EventGap: the source has subscribed again, and hints may have been lost. Warn: cause,
	// silent (how long the source had heard nothing).
	EventGap = "signals.gap"
	// EventBlind: there are changes that the engine sends no hints for, as it is set up: see
	// [Subscription]. Warn: to.
	EventBlind = "signals.source.blind"
	// EventLag: a read was behind a hint for as long as WithLag allows, or longer. Logged once.
	// Warn: lag, allowed.
	EventLag = "signals.lag"
	// EventEnded: the source has ended; the runner restarts it after pause. Warn: error,
	// pause.
	EventEnded = "signals.source.ended"
	// EventFinal: the source has ended with an error that is ErrFinal, and so does Run. Error:
	// error.
	EventFinal = "signals.source.final"
	// EventUnread: a bulk read has failed; the runner reads the unread keys again after pause.
	// Warn: error, keys (the number of them), pause. Without keys: a method of the Waiters, or the function of
	// [Part], has panicked; the runner re-checks everything after pause.
	EventUnread = "signals.resync.failed"
	// EventRechecked: every key has been signalled. Debug: keys and reads (of WithResync),
	// elapsed.
	EventRechecked = "signals.rechecked"
	// EventLost: the logger's handler was too slow for some records. Warn: records (the number of them).
	EventLost = "signals.records.lost"
)

func newConfig(opts []Option) (config, error) {
	c := config{
		name:  "signals",
		limit: 30 * time.Second, lag: 2 * time.Second, auditByCost: true, spreadByCost: true,
		minPause: 20 * time.Millisecond, maxPause: time.Second,
		logger: slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o == nil {
			return c, fmt.Errorf("%w: a nil Option", ErrInvalidOption)
		}
		o(&c)
	}
	switch {
	case c.audit < 0:
		return c, fmt.Errorf("%w: the audit's interval is %v, must be at least 0 (off)", ErrInvalidOption, c.audit)
	case c.spread < 0:
		return c, fmt.Errorf("%w: the spread is %v, must be at least 0 (none)", ErrInvalidOption, c.spread)
	case c.limit <= 0:
		return c, fmt.Errorf("%w: the limit of a bulk read is %v, must be positive", ErrInvalidOption, c.limit)
	case c.lag < 0 || c.lag > maxLag:
		return c, fmt.Errorf("%w: the lag is %v, must be at least 0 and at most %v", ErrInvalidOption, c.lag, maxLag)
	case c.minPause <= 0 || c.maxPause < c.minPause:
		return c, fmt.Errorf("%w: the pauses are %v to %v, must be positive and in this order", ErrInvalidOption, c.minPause, c.maxPause)
	case c.logger == nil:
		return c, fmt.Errorf("%w: the logger is nil", ErrInvalidOption)
	}
	c.records = logging.New(c.logger.Handler(), EventLost, func(any, []byte) {})
	c.logger = slog.New(c.records).With("signals", c.name)
	return c, nil
}
