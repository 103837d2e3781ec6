package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/claims/claimstest"
	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
)

const takeOneJob = `DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id`

// take takes a job, if there is one.
func take(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (job int, found bool, err error) {
	err = db.QueryRow(ctx, takeOneJob).Scan(&job)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return job, err == nil, err
}

// A job is a row, and its hint is in the transaction that adds it.
func TestOneOfManyAcrossProcesses(t *testing.T) {
	d := startDatabase(t)
	pool, ctx := d.pool(), t.Context()
	_, err := pool.Exec(ctx, "CREATE TABLE jobs (id int PRIMARY KEY)")
	require.NoError(t, err)
	claimstest.OneOfMany(t, claimstest.Engine{
		Key:    "jobs",
		Look:   func(ctx context.Context, _ string) (int, bool, error) { return take(ctx, pool) },
		Source: func() (signals.Source[string], error) { return postgres.Listen(d.connect, "jobs") },
		Put: func(job int) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO jobs VALUES ($1)", job); err != nil {
					return err
				}
				return postgres.Notify(ctx, tx, "jobs", signals.Unknown, "jobs")
			})
		},
		Add: func(job int) error {
			_, err := pool.Exec(ctx, "INSERT INTO jobs VALUES ($1)", job)
			return err
		},
		Hint: func() error { return postgres.Notify(ctx, pool, "jobs", signals.Unknown, "jobs") },
		Hold: func() (die func() error, ok bool, err error) {
			dying, err := pgx.Connect(ctx, d.url())
			if err != nil {
				return nil, false, err
			}
			die = func() error { return dying.Close(ctx) }
			if _, err = dying.Exec(ctx, "BEGIN"); err == nil {
				_, ok, err = take(ctx, dying)
			}
			if !ok {
				err = errors.Join(err, die())
			}
			return die, ok, err
		},
	})
}
