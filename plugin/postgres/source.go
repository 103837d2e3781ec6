package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/delayedop/purgatory/signals"
)

// quiet is how long nothing may be heard before the connection is asked whether it stands,
// and how long the answer may take.
const quiet = 10 * time.Second

// Source hears what [Notify] says on a channel. It is a signals.Source.
type Source struct {
	connect func(context.Context) (*pgx.Conn, error)
	channel string
}

// errHandler: a handler of the user's has taken a notification. pgx does not show before whether there is one.
var errHandler = errors.New("the connection's config must not set OnNotification")

// Listen returns a source of the hints on channel. connect makes a connection for it,
// which it closes; the connection's config must not set OnNotification. Error: ErrKey.
func Listen(connect func(context.Context) (*pgx.Conn, error), channel string) (*Source, error) {
	if err := checkChannel(channel); err != nil {
		return nil, err
	}
	return &Source{connect, channel}, nil
}

// Run implements signals.Source. It ends when the connection breaks.
func (s *Source) Run(ctx context.Context, sink signals.Sink[string]) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return s.failed(ctx, "connect", err)
	}
	defer s.close(conn)
	// The name is an identifier here, and cannot be a parameter.
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.channel}.Sanitize()); err != nil {
		return s.failed(ctx, "listen", err)
	}
	sink.Missed(signals.ErrSubscribed)
	for {
		within, cancel := context.WithTimeout(ctx, quiet)
		n, err := conn.WaitForNotification(within)
		silent := err != nil && within.Err() != nil && ctx.Err() == nil && !conn.IsClosed()
		cancel()
		switch {
		case err == nil && n == nil:
			return s.failed(ctx, "wait", errHandler)
		case err == nil:
			sink.Changed(decode(n.Payload))
		case silent:
			if err := s.ask(ctx, conn); err != nil {
				return s.failed(ctx, "ask after a silence", err)
			}
		default:
			return s.failed(ctx, "wait", err)
		}
	}
}

// ask makes sure that the other side is still there: a half-open connection says nothing.
func (s *Source) ask(ctx context.Context, conn *pgx.Conn) error {
	within, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	return conn.Ping(within)
}

// close closes the connection. Its context is not the source's, which has ended. A
// connection whose statement was cut short is being closed already, by a goroutine of
// pgx's, which asks the server to cancel the statement; that may take pgx 15 seconds.
func (s *Source) close(conn *pgx.Conn) {
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(within)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-within.Done():
	}
}

func (s *Source) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("postgres: channel %q: %s: %w", s.channel, what, err)
}
