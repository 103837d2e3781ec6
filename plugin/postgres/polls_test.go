package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// A server has ten thousand long polls and ten connections. For five seconds the database lets nobody in, neither its reads
// nor its source, and everything changes. Each poll gets the change, and none an error. (Issue 61; package signals has the same
// without a database.)
func pollsSurviveACut(t *testing.T, d *database) {
	const polls, connections = 10_000, 10
	e := d.engine()
	table := fmt.Sprintf("state%d", engines.Load())
	d.run("GRANT SELECT ON " + table + " TO source")
	config, err := pgxpool.ParseConfig(fmt.Sprintf("postgres://source@%s/postgres?sslmode=disable&application_name=source&pool_max_conns=%d", d.address, connections))
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	p := hear(t, e.Source())

	var first, failed, reading, most atomic.Int64
	read := func(key string) func(context.Context) (int64, bool, error) {
		begun := false
		return func(ctx context.Context) (value int64, done bool, err error) {
			defer func() {
				if err != nil {
					failed.Add(1)
				} else if !begun {
					begun = true
					first.Add(1)
				}
			}()
			conn, err := pool.Acquire(ctx)
			if err != nil {
				return 0, false, err
			}
			defer conn.Release()
			n := reading.Add(1)
			defer reading.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			err = conn.QueryRow(ctx, "SELECT value FROM "+table+" WHERE key = $1", key).Scan(&value)
			if errors.Is(err, pgx.ErrNoRows) {
				return 0, false, nil
			}
			return value, err == nil, err
		}
	}
	answers := make(chan error, polls)
	keys := make([]string, polls)
	for i := range polls {
		keys[i] = key(i)
		go func() {
			_, err := signals.AwaitRead(t.Context(), p, 2*time.Minute, read(keys[i]), keys[i])
			answers <- err
		}()
	}
	for began := time.Now(); first.Load() < polls/2; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(began), time.Minute, "the polls read for the first time")
	}
	e.Revoke() // while the others read
	time.Sleep(5 * time.Second)
	others := d.pool()
	_, err = others.Exec(t.Context(), "INSERT INTO "+table+" SELECT unnest($1::text[]), 1", keys) // its hints would be lost
	require.NoError(t, err)
	e.Restore()
	began := time.Now()
	for range polls {
		require.NoError(t, receive(t, answers, "an answer"))
	}
	t.Logf("after %v all are answered; %d reads failed", time.Since(began), failed.Load())
	assert.LessOrEqual(t, most.Load(), int64(connections), "reads at once")
	assert.Positive(t, failed.Load(), "the cut is felt")
}
