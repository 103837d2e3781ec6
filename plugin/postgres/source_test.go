package postgres_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

type change struct {
	key      string
	position int64
}

// heard collects what a sink is told; Changed blocks while its channel is full.
type heard struct {
	changes chan change
	gaps    chan error
}

func (h heard) Changed(key string, position int64) { h.changes <- change{key, position} }
func (h heard) Missed(cause error)                 { h.gaps <- cause }

// run runs source once, at a runner that tells h what it is told.
func run(ctx context.Context, source signals.Source[string], h heard) (err error) {
	r, err := signals.To[string](nobody{}, signals.WithAudit(0), signals.WithLag(0))
	if err != nil {
		return err
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_ = r.Run(within, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		err = source.Run(ctx, telling{sink, h, r})
		cancel(nil) // it is not run again
		return err
	}))
	return err
}

// nobody are Waiters without a wait.
type nobody struct{}

func (nobody) SignalUpTo(string, int64) bool { return false }
func (nobody) Keys() iter.Seq[string]        { return func(func(string) bool) {} }

// telling tells h of hints and gaps, and that the source stands.
type telling struct {
	signals.Sink[string]
	h heard
	r *signals.Runner[string]
}

func (t telling) Changed(key string, position int64) {
	t.h.Changed(key, position)
	t.Sink.Changed(key, position)
}

func (t telling) Heard(probe uint64) {
	stood := t.r.Stats().Standing
	t.Sink.Heard(probe)
	if !stood && t.r.Stats().Standing {
		t.h.Missed(signals.ErrSubscribed)
	}
}

func receive[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		require.FailNow(t, "did not come", what)
	}
	return v
}

// listen runs a source that hears into a sink with room for so many changes.
func listen(t *testing.T, d *database, channel string, room int) (h heard, stop func()) {
	t.Helper()
	h = heard{make(chan change, room), make(chan error, 10)}
	source, err := postgres.Listen(d.connect, channel)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, source, h) }()
	select {
	case err := <-h.gaps:
		t.Log(err)
	case err := <-done:
		require.NoError(t, err, "the source has not stood")
	}
	return h, func() { cancel(); _ = receive(t, done, "the end of Run") }
}

// One server for all, because it takes a second to start.
func TestPostgres(t *testing.T) {
	d := startDatabase(t)
	t.Run("conformance", func(t *testing.T) {
		defer postgres.SetRhythm(500*time.Millisecond, 2*time.Second)()
		signalstest.Run(t, d.deafEngine)
	})
	t.Run("random cuts", func(t *testing.T) {
		o, err := signalstest.RandomCuts(t.Context(), d.engine())
		require.NoError(t, err)
		assert.Zero(t, o.Lost)
		assert.Zero(t, o.Twice)
		assert.Equal(t, o.Waits, o.Answered)
		t.Log(o)
	})
	t.Run("waits end because of the re-check", func(t *testing.T) { waitsNeedRechecks(t, d, false) })
	t.Run("without it waits are lost", func(t *testing.T) { waitsNeedRechecks(t, d, true) })
	t.Run("a hint is part of its transaction", func(t *testing.T) { hintsAreTransactional(t, d) })
	t.Run("many keys in one transaction", func(t *testing.T) { manyKeys(t, d) })
	t.Run("a slow listener hears everything later", func(t *testing.T) { slowListener(t, d) })
	t.Run("a listener that is gone", func(t *testing.T) { aListenerThatIsGone(t, d) })
	t.Run("long polls through a cut", func(t *testing.T) { pollsSurviveACut(t, d) })
	t.Run("reads at a standby", func(t *testing.T) { readsAtAStandby(t, d) })
	t.Run("through a pooler", func(t *testing.T) { throughAPooler(t, d) })
	t.Run("a failover behind a proxy", func(t *testing.T) { failoverBehindAProxy(t, d) })
	t.Run("a server that ends quiet sessions", func(t *testing.T) { idleSessions(t, d) })
	t.Run("keys and payloads", func(t *testing.T) { keysAndPayloads(t, d) })
	t.Run("a connection with a handler of its own", func(t *testing.T) { ownHandler(t, d) })
}

func hintsAreTransactional(t *testing.T, d *database) {
	h, stop := listen(t, d, "tx", 10)
	defer stop()
	pool := d.pool()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, postgres.Notify(t.Context(), tx, "tx", 1, "rolled back"))
	require.NoError(t, tx.Rollback(t.Context()))
	tx, err = pool.Begin(t.Context())
	require.NoError(t, err)
	for range 3 { // equal ones are folded
		require.NoError(t, postgres.Notify(t.Context(), tx, "tx", 2, "committed"))
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, postgres.Notify(t.Context(), pool, "tx", 3, "last"))
	assert.Equal(t, change{"committed", 2}, receive(t, h.changes, "the committed one"))
	assert.Equal(t, change{"last", 3}, receive(t, h.changes, "the last"))
	assert.Empty(t, h.changes)
}

func manyKeys(t *testing.T, d *database) {
	const n = 20_000
	h, stop := listen(t, d, "many", n)
	defer stop()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = key(i)
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), d.pool(), func(tx pgx.Tx) error {
		return postgres.Notify(t.Context(), tx, "many", 7, keys...)
	}))
	for i := range keys {
		require.Equal(t, change{keys[i], 7}, receive(t, h.changes, "a key"))
	}
}

func slowListener(t *testing.T, d *database) {
	const n = 1000 // of seven kilobytes: more than the sockets hold
	h, stop := listen(t, d, "slow", 0)
	defer stop()
	pool := d.pool()
	for i := range n {
		require.NoError(t, postgres.Notify(t.Context(), pool, "slow", int64(i), strings.Repeat("x", 7000)))
	}
	for i := range n {
		require.EqualValues(t, i, receive(t, h.changes, "a hint").position)
	}
}

func keysAndPayloads(t *testing.T, d *database) {
	const channel = `A "channel"; DROP TABLE x` // an identifier like any other
	h, stop := listen(t, d, channel, 10)
	defer stop()
	pool := d.pool()
	longest := strings.Repeat("x", postgres.MaxPayload-3)
	for _, c := range []change{
		{"", 5}, {" ", 5}, {"a b", -1}, {"'; NOTIFY other", signals.Unknown}, {"17 x", signals.Unknown}, {"é\n*>", 1 << 60}, {longest, 17},
	} {
		require.NoError(t, postgres.Notify(t.Context(), pool, channel, c.position, c.key))
		assert.Equal(t, c, receive(t, h.changes, "a hint"))
	}
	for name, bad := range map[string]string{"too long": longest + "x", "zero byte": "a\x00b", "no UTF-8": "\xff"} {
		err := postgres.Notify(t.Context(), pool, channel, 17, "good", bad)
		assert.ErrorIs(t, err, postgres.ErrKey, name)
	}
	for _, bad := range []string{"", "a\x00", "\xff", strings.Repeat("x", 64)} {
		assert.ErrorIs(t, postgres.Notify(t.Context(), pool, bad, 1, "key"), postgres.ErrKey)
		_, err := postgres.Listen(d.connect, bad)
		assert.ErrorIs(t, err, postgres.ErrKey)
	}
	require.NoError(t, postgres.Notify(t.Context(), pool, channel, 1))
	_, err := pool.Exec(t.Context(), "SELECT pg_notify($1, 'of-somebody-else')", channel)
	require.NoError(t, err)
	assert.Equal(t, change{"of-somebody-else", signals.Unknown}, receive(t, h.changes, "the stranger's"))
	_, err = pool.Exec(t.Context(), "SELECT pg_notify($1, 'two words')", channel)
	require.NoError(t, err)
	assert.Equal(t, change{"two words", signals.Unknown}, receive(t, h.changes, "the stranger's"))
}

// hear returns a purgatory to which the source's hints are delivered until the test ends.
func hear(t *testing.T, source signals.Source[string]) *purgatory.Purgatory[string] {
	t.Helper()
	p, err := purgatory.New[string]("test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0), signals.WithBackoff(time.Millisecond, 50*time.Millisecond))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx, source) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return p
}
