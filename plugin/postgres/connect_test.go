package postgres_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/postgres"
)

// A connection with a handler of its own gives the notifications to that, and none to the source.
func ownHandler(t *testing.T, d *database) {
	config, err := pgx.ParseConfig(d.url())
	require.NoError(t, err)
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	source, err := postgres.Listen(func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) }, "handled")
	require.NoError(t, err)
	h := heard{make(chan change, 10), make(chan error, 10)}
	ended := make(chan error, 1)
	go func() { ended <- run(t.Context(), source, h) }()
	stop, pool := make(chan struct{}), d.pool()
	var notifying sync.WaitGroup
	notifying.Go(func() { // the handler may take the first one while Run still sets up the session
		for {
			assert.NoError(t, postgres.Notify(t.Context(), pool, "handled", 1, "key"))
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	assert.ErrorContains(t, receive(t, ended, "the end of Run"), "OnNotification")
	assert.Empty(t, h.gaps, "it has never stood")
	close(stop)
	notifying.Wait()
}

// A server that does not answer is being asked to cancel the statement when the source's context ends.
func TestRunReturnsWhenTheConnectionIsClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	asked := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer c.Close()
		b := pgproto3.NewBackend(c, c)
		_, err = b.ReceiveStartupMessage()
		assert.NoError(t, err)
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 2}})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		assert.NoError(t, b.Flush())
		_, err = b.Receive() // LISTEN, which gets no answer
		assert.NoError(t, err)
		close(asked)
		cancellation, err := l.Accept()
		if !assert.NoError(t, err) {
			return
		}
		time.Sleep(20 * time.Millisecond) // Run waits for it
		_ = cancellation.Close()
	}()
	var conn *pgx.Conn
	source, err := postgres.Listen(func(ctx context.Context) (*pgx.Conn, error) {
		conn, err = pgx.Connect(ctx, "postgres://test@"+l.Addr().String()+"/test?sslmode=disable")
		return conn, err
	}, "channel")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, source, heard{}) }()
	receive(t, asked, "LISTEN")
	cancel()
	assert.ErrorIs(t, receive(t, ended, "the end of Run"), context.Canceled)
	select {
	case <-conn.PgConn().CleanupDone():
	default:
		assert.Fail(t, "Run has left a goroutine that closes the connection")
	}
	receive(t, served, "the end of the server")
	require.NoError(t, l.Close())
}
