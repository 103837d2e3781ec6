package recipes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
)

// heard runs a source until the test ends, and returns the hints after its first Missed.
func heard(t *testing.T, source signals.Source[string]) sink {
	t.Helper()
	hints := make(sink, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx, hints) }()
	t.Cleanup(func() { stop(); assert.ErrorIs(t, receive(t, ended), context.Canceled) })
	require.Equal(t, hint{}, receive(t, hints))
	return hints
}

func TestAWriterOnNATSHintsAtWhatItHasChanged(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(time.Minute))
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "orders"})
	require.NoError(t, err)
	hints := heard(t, natssignals.KeyValue(nc, "orders"))
	require.NoError(t, put(t.Context(), bucket, "order 17", []byte("paid")))
	assert.Equal(t, hint{"order 17", 1}, receive(t, hints))

	source, err := natssignals.Subjects(nc, "hints.orders")
	require.NoError(t, err)
	hints = heard(t, source)
	refused := errors.New("refused")
	assert.ErrorIs(t, change(t.Context(), func(context.Context) (int64, error) { return 0, refused }, nc, "order 16"), refused)
	require.NoError(t, change(t.Context(), func(context.Context) (int64, error) { return 7, nil }, nc, "order 17"))
	assert.Equal(t, hint{"order 17", 7}, receive(t, hints))
}

// transaction is one of PostgreSQL that notes its statements.
type transaction struct {
	pgx.Tx
	statements []string
	err        error // of the next statement
}

func (x *transaction) Exec(_ context.Context, statement string, _ ...any) (pgconn.CommandTag, error) {
	verb, _, _ := strings.Cut(statement, "(")
	x.statements = append(x.statements, verb)
	return pgconn.CommandTag{}, x.err
}

func TestAWriterOnPostgreSQLHintsInItsTransaction(t *testing.T) {
	x := &transaction{}
	require.NoError(t, pay(t.Context(), x, "order 17"))
	assert.Equal(t, []string{"UPDATE orders SET paid = true WHERE id = $1", "SELECT pg_notify"}, x.statements)
	x = &transaction{err: errors.New("refused")}
	require.ErrorIs(t, pay(t.Context(), x, "order 17"), x.err)
	assert.Len(t, x.statements, 1)
}
