package postgres_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/postgres"
)

// pgx closes a connection whose statement was cut short on a goroutine of its own, and sends something before. If its
// deadline for that gets lost, only Run can end it.
func TestAConnectionThatTakesNothingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.fates = []plan{{fault: askSilent}, {fault: refused}} // the second is to cancel the statement
		source, err := postgres.Listen(func(ctx context.Context) (*pgx.Conn, error) {
			config, err := pgx.ParseConfig("host=127.0.0.1 user=u database=d sslmode=disable default_query_exec_mode=simple_protocol")
			if err != nil {
				return nil, err
			}
			config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := s.dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &fullConn{Conn: conn, closed: make(chan struct{})}, nil
			}
			return pgx.ConnectConfig(ctx, config)
		}, "hints")
		require.NoError(t, err)
		require.Error(t, run(t.Context(), source, heard{make(chan change, 10), make(chan error, 10)}))
		time.Sleep(time.Minute)
		assert.Empty(t, s.sessions(false))
		s.cut()
	})
}

// fullConn takes nothing after the question how full the queue is, and keeps no deadline that is still to come.
type fullConn struct {
	net.Conn
	full   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *fullConn) Write(b []byte) (int, error) {
	if c.full.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	c.full.Store(bytes.Contains(b, []byte("pg_notification_queue_usage")))
	return c.Conn.Write(b)
}

func (c *fullConn) SetDeadline(t time.Time) error {
	if t.After(time.Now()) {
		t = time.Time{}
	}
	return c.Conn.SetDeadline(t)
}

func (c *fullConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
