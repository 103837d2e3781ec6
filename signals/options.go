package signals

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Option configures a [Runner].
type Option func(*config)

type config struct {
	name               string
	resync             any // func(context.Context, []K) error
	audit              time.Duration
	minPause, maxPause time.Duration
	logger             *slog.Logger
}

// WithName sets the runner's name in logs and statistics. Default "signals".
func WithName(name string) Option { return func(c *config) { c.name = name } }

// WithResync sets a function that the runner calls before each re-check, with all keys
// that are waited for, in batches of at most 1000. The function reads their state in bulk
// into a copy that the conditions of the waits look at, so that the waits need not read
// one by one. It runs on a goroutine of the runner and may block; its ctx ends with that of
// [Runner.Run]. After an error the runner pauses and calls it again for all keys; the
// re-check begins only when every batch has been read. K must be the purgatory's key type.
func WithResync[K comparable](read func(ctx context.Context, keys []K) error) Option {
	return func(c *config) { c.resync = read }
}

// WithAudit sets the interval at which the runner re-checks everything, as if hints had
// been lost. Each interval is longer or shorter at random, by at most 10 %. Use it where a
// source cannot notice that a hint was lost, or where a writer can die between its change
// and its hint. Default 0: off.
func WithAudit(every time.Duration) Option { return func(c *config) { c.audit = every } }

// WithBackoff sets the first and the longest pause before the runner restarts a source
// that has ended. The pause doubles each time. It starts from the first one again after a
// source has been subscribed for at least as long as the last pause. Each pause is shortened
// at random by up to one half, so that replicas do not reconnect all at once. Default
// 20 ms, 1 s.
func WithBackoff(first, longest time.Duration) Option {
	return func(c *config) { c.minPause, c.maxPause = first, longest }
}

// WithLogger sets the logger; see the Event constants. Default: the runner does not log.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// The messages of the records that the runner logs. Each record has the attribute
// "signals", the runner's name.
const (
	// EventStanding: the source has subscribed for the first time. Info.
	EventStanding = "signals.standing"
	// EventGap: the source has subscribed again, and hints may have been lost. Warn: cause,
	// silent (how long the source had heard nothing).
	EventGap = "signals.gap"
	// EventEnded: the source has ended; the runner restarts it after pause. Warn: error,
	// pause.
	EventEnded = "signals.source.ended"
	// EventUnread: a bulk read has failed; the runner repeats it after pause. Warn: error,
	// pause.
	EventUnread = "signals.resync.failed"
	// EventRechecked: every key has been signalled. Debug: keys and reads (of WithResync),
	// elapsed.
	EventRechecked = "signals.rechecked"
)

func newConfig(opts []Option) (config, error) {
	c := config{
		name:     "signals",
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
	case c.minPause <= 0 || c.maxPause < c.minPause:
		return c, fmt.Errorf("%w: the pauses are %v to %v, must be positive and in this order", ErrInvalidOption, c.minPause, c.maxPause)
	case c.logger == nil:
		return c, fmt.Errorf("%w: the logger is nil", ErrInvalidOption)
	}
	c.logger = c.logger.With("signals", c.name)
	return c, nil
}
