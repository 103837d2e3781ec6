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

// Listen returns a source of the hints on channel. connect makes a connection for it,
// which it closes; the connection's config must not set OnNotification. Error: ErrKey.
func Listen(connect func(context.Context) (*pgx.Conn, error), channel string) (*Source, error) {
	if err := checkChannel(channel); err != nil {
		return nil, err
	}
	return &Source{connect: connect, channel: channel}, nil
}

// Run implements signals.Source. It ends when the connection breaks, or does not answer.
func (s *Source) Run(ctx context.Context, sink signals.Sink[string]) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return s.failed(ctx, "connect", err)
	}
	defer s.close(conn)
	within, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	// The name is an identifier here, and cannot be a parameter.
	if _, err := conn.Exec(within, "LISTEN "+pgx.Identifier{s.channel}.Sanitize()); err != nil {
		return s.failed(ctx, "listen", err)
	}
	sink.Missed(signals.ErrSubscribed)
	if err := giveUpLater(within, conn); err != nil {
		return s.failed(ctx, "set tcp_user_timeout", err)
	}
	for next := time.Now(); ; {
		if !time.Now().Before(next) {
			if err := s.used.ask(ctx, conn); err != nil {
				return s.failed(ctx, "ask", err)
			}
			next = time.Now().Add(askEvery)
		}
		within, cancel := context.WithDeadline(ctx, next)
		n, err := conn.WaitForNotification(within)
		due := err != nil && within.Err() != nil && ctx.Err() == nil && !conn.IsClosed()
		cancel()
		switch {
		case err == nil && n == nil:
			return s.failed(ctx, "wait", errHandler)
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
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("postgres: channel %q: %s: %w", s.channel, what, err)
}
