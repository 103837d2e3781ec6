package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/delayedop/purgatory/signals"
)

// askEvery is how often the source asks the server, and notifies itself. askLimit is how long an answer
// may take, and how old the last notification to itself may be. They are variables for the tests.
var askEvery, askLimit = 10 * time.Second, 20 * time.Second

// errSession: the server says that the session does not listen.
var errSession = errors.New("the connection's session is not the one that listens")

// echo is how a source hears itself. It listens on a second channel, which nobody else knows, so that
// its probes reach no other listener. A probe is a notification on that channel, together with the
// question whether the session still listens on the source's own one.
//
// A session's own notification comes together with the answer to its statement. So a pooler that lends
// the session for a statement or a transaction delivers it, and drops those of others, which
// come later. Where such a pooler may stand between, the first probe therefore comes from another
// connection. That is so where the server's process is another one than that with which the
// connection was made.
type echo struct {
	source  *Source
	conn    *pgx.Conn
	channel string
	stands  bool // a probe has come back

	mu struct {
		sync.Mutex
		probe uint64             // that is to be sent; 0: none
		wake  context.CancelFunc // ends the wait for notifications; nil: nobody waits
	}
}

func newEcho(s *Source, conn *pgx.Conn) *echo {
	return &echo{source: s, conn: conn, channel: fmt.Sprintf("purgatory probe %016x%016x", rand.Uint64(), rand.Uint64())}
}

// probe has the goroutine of Run send a probe, which is the only one that may use the connection.
func (e *echo) probe(_ context.Context, probe uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.probe = probe
	if e.mu.wake != nil {
		e.mu.wake()
	}
	return nil
}

// wait returns the context in which to wait for notifications, or the probe that is to be sent.
func (e *echo) wait(ctx context.Context) (within context.Context, cancel context.CancelFunc, probe uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if probe, e.mu.probe = e.mu.probe, 0; probe > 0 {
		e.mu.wake = nil
		return nil, nil, probe
	}
	within, cancel = context.WithCancel(ctx)
	e.mu.wake = cancel
	return within, cancel, 0
}

// send asks the server, and sends a probe.
func (e *echo) send(ctx context.Context, probe uint64) error {
	within, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var used float64
	var listens bool
	var pid uint32
	// The simple protocol needs no prepared statement, which a pooler may not know.
	err := e.conn.QueryRow(within, `SELECT pg_notification_queue_usage(), pg_backend_pid(),
		(SELECT count(*) FROM pg_listening_channels() AS channel WHERE channel IN ($1, $2)) = 2`,
		pgx.QueryExecModeSimpleProtocol, e.source.channel, e.channel).Scan(&used, &pid, &listens)
	if err != nil {
		return err
	}
	if !listens {
		return fmt.Errorf("%w: %w", errSession, errPooler)
	}
	e.source.used.set(used)
	from := e.conn
	if pid != e.conn.PgConn().PID() && !e.stands {
		if from, err = e.source.connect(within); err != nil {
			return err
		}
		defer e.source.close(from)
	}
	_, err = from.Exec(within, "SELECT pg_notify($1, $2)", pgx.QueryExecModeSimpleProtocol, e.channel, strconv.FormatUint(probe, 10))
	return err
}

// heard takes a probe that has come back. When the first one has, the session is the source's own.
func (e *echo) heard(ctx context.Context, payload string, sink signals.Sink[string]) error {
	probe, err := strconv.ParseUint(payload, 10, 64)
	if err != nil {
		return nil // somebody else's
	}
	sink.Heard(probe)
	if e.stands {
		return nil
	}
	e.stands = true
	within, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return giveUpLater(within, e.conn)
}
