package postgres_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
)

// frozen is a connection whose owner takes nothing any more, and does not close it either.
type frozen struct {
	net.Conn
	cold    *atomic.Bool
	over    chan struct{} // closed when the test ends
	noticed *sync.Once
	asleep  chan struct{} // closed when the first Read is held up; of all connections, since one may be made to cancel a statement
}

func (f *frozen) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.cold.Load() {
		f.noticed.Do(func() { close(f.asleep) })
		<-f.over
	}
	return n, err
}

// A listener that was given up, as by a host that has lost its power, does not hold the queue of
// notifications for ever: the source has told the server to end its session.
func aListenerThatIsGone(t *testing.T, d *database) {
	defer postgres.SetServerPatience(3 * time.Second)()
	var cold atomic.Bool
	var noticed sync.Once
	over, asleep := make(chan struct{}), make(chan struct{})
	source, err := postgres.Listen(func(ctx context.Context) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(d.url() + "&application_name=gone")
		if err != nil {
			return nil, err
		}
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &frozen{Conn: c, cold: &cold, over: over, noticed: &noticed, asleep: asleep}, err
		}
		return pgx.ConnectConfig(ctx, config)
	}, "gone")
	require.NoError(t, err)
	h := heard{make(chan change, 100_000), make(chan error, 10)}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- run(ctx, source, h) }()
	require.ErrorIs(t, receive(t, h.gaps, "Missed"), signals.ErrSubscribed)
	for deadline := time.Now().Add(time.Minute); source.QueueUsed() < 0; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the source has not asked")
	}
	cold.Store(true)
	pool := d.pool()
	flood := func() {
		keys := make([]string, 500)
		for i := range keys {
			keys[i] = strconv.Itoa(i) + strings.Repeat("x", 7000)
		}
		require.NoError(t, postgres.Notify(t.Context(), pool, "gone", 1, keys...))
	}
	query := func(sql string) (n float64) {
		require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	const usage, sessions = "SELECT pg_notification_queue_usage()", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gone'"
	for deadline := time.Now().Add(time.Minute); query(usage) == 0; { // until no buffer on the way takes more
		require.True(t, time.Now().Before(deadline), "the queue stays empty")
		flood()
		time.Sleep(100 * time.Millisecond)
	}
	receive(t, asleep, "the end of the listener's reading")
	for deadline := time.Now().Add(90 * time.Second); query(sessions) > 0; time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the session of the listener is still there, and the queue is full to %v", query(usage))
		assert.Empty(t, ended, "the source still holds its connection")
	}
	require.NoError(t, postgres.Notify(t.Context(), pool, "gone", 1, "last")) // what is committed next empties the queue
	assert.Zero(t, query(usage))
	close(over)
	cancel()
	require.Error(t, receive(t, ended, "the end of Run"))
}
