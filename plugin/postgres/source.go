package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/delayedop/purgatory/signals"
)

// Source hears what [Notify] says on a channel. It is a signals.Source.
type Source struct {
	connect func(context.Context) (*pgx.Conn, error)
	channel string
	used    usage
}

// errHandler: a handler of the user's has taken a notification. pgx does not show before whether there is one.
var errHandler = errors.New("the connection's config must not set OnNotification")

// errPooler: a statement is answered, and notifications do not come, or not any more.
var errPooler = errors.New("what the source notifies itself of does not reach it; between it and the server there must be no pooler in " +
	"transaction or statement mode, and no proxy that gives the connection another session after a failover, and the connection's config must not set OnNotification")

// Listen returns a source of the hints on channel. connect makes a connection for it,
// which it closes; the connection's config must not set OnNotification. Error: ErrKey.
func Listen(connect func(context.Context) (*pgx.Conn, error), channel string) (*Source, error) {
	if err := checkChannel(channel); err != nil {
		return nil, err
	}
	return &Source{connect: connect, channel: channel}, nil
}

// Run implements signals.Source. It ends when the connection breaks, does not answer, or does not
// deliver what the source notifies itself of.
func (s *Source) Run(ctx context.Context, sink signals.Sink[string]) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return s.failed(ctx, "connect", err)
	}
	defer s.close(conn)
	e := newEcho(s, conn)
	within, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	// The names are identifiers here, and cannot be parameters.
	if _, err := conn.Exec(within, "LISTEN "+pgx.Identifier{s.channel}.Sanitize()+"; LISTEN "+pgx.Identifier{e.channel}.Sanitize()); err != nil {
		return s.failed(ctx, "listen", err)
	}
	sink.Subscribed(signals.Subscription{Probe: e.probe, Every: askEvery, Limit: askLimit})
	for {
		within, cancel, probe := e.wait(ctx)
		if probe > 0 {
			if err := e.send(ctx, probe); err != nil {
				return s.failed(ctx, "ask", err)
			}
			continue
		}
		n, err := conn.WaitForNotification(within)
		due := err != nil && within.Err() != nil && ctx.Err() == nil && !conn.IsClosed()
		cancel()
		switch {
		case err == nil && n == nil:
			return s.failed(ctx, "wait", errHandler)
		case err == nil && n.Channel == e.channel:
			if err := e.heard(ctx, n.Payload, sink); err != nil {
				return s.failed(ctx, "set tcp_user_timeout", err)
			}
		case err == nil:
			sink.Changed(decode(n.Payload))
		case due:
		default:
			return s.failed(ctx, "wait", err)
		}
	}
}

// close closes the connection. Its context is not the source's, which has ended. A
// connection whose statement was cut short is being closed already, by a goroutine of
// pgx's, which asks the server to cancel the statement. That may take it 15 seconds, or for
// ever, if the end of the statement's context takes away the deadline that pgx has set.
func (s *Source) close(conn *pgx.Conn) {
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(within)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-within.Done():
		_ = conn.PgConn().Conn().Close()
	}
}

func (s *Source) failed(ctx context.Context, what string, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, signals.ErrDeaf):
		what, err = "hear", fmt.Errorf("%w: %w", cause, errPooler)
	case cause != nil:
		return cause
	}
	return fmt.Errorf("postgres: channel %q: %s: %w", s.channel, what, err)
}
