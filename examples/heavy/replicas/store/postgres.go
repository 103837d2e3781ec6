package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
)

const channel = "replicas"

// readers and writers are connections of a store: a put does not wait behind thousands of reads.
const readers, writers = 8, 4

type postgresStore struct {
	reads, puts *pgxpool.Pool
	source      *postgres.Source
}

// Postgres returns a store in a table of the database at url, which it creates if it
// does not exist.
func Postgres(ctx context.Context, url string) (Store, error) {
	reads, err := openPool(ctx, url, readers)
	if err != nil {
		return nil, err
	}
	puts, err := openPool(ctx, url, writers)
	if err != nil {
		reads.Close()
		return nil, err
	}
	s := &postgresStore{reads: reads, puts: puts}
	// Several replicas may do this at the same time.
	_, err = puts.Exec(ctx, `DO $$ BEGIN PERFORM pg_advisory_xact_lock(7411);
		CREATE SEQUENCE IF NOT EXISTS replicas_revision;
		CREATE TABLE IF NOT EXISTS replicas (key text PRIMARY KEY, value bytea NOT NULL, revision bigint NOT NULL); END $$`)
	if err == nil {
		s.source, err = postgres.Listen(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) }, channel)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func openPool(ctx context.Context, url string, size int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = size
	return pgxpool.NewWithConfig(ctx, config)
}

func (s *postgresStore) Put(ctx context.Context, key string, value []byte) (revision int64, err error) {
	err = pgx.BeginFunc(ctx, s.puts, func(tx pgx.Tx) error {
		// The row is locked before the sequence is asked: revisions of a key rise in the order of their commits.
		err := tx.QueryRow(ctx, `INSERT INTO replicas VALUES ($1, $2, 0) ON CONFLICT (key) DO UPDATE SET value = $2 RETURNING 0`, key, value).Scan(&revision)
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `UPDATE replicas SET revision = nextval('replicas_revision') WHERE key = $1 RETURNING revision`, key).Scan(&revision)
		if err != nil {
			return err
		}
		return postgres.Notify(ctx, tx, channel, revision, key)
	})
	return revision, err
}

func (s *postgresStore) Get(ctx context.Context, key string) (e Entry, err error) {
	err = s.reads.QueryRow(ctx, "SELECT value, revision FROM replicas WHERE key = $1", key).Scan(&e.Value, &e.Revision)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return e, err
}

func (s *postgresStore) Revisions(ctx context.Context, keys []string) (map[string]int64, error) {
	rows, err := s.reads.Query(ctx, "SELECT key, revision FROM replicas WHERE key = ANY($1)", keys)
	if err != nil {
		return nil, err
	}
	found := make(map[string]int64, len(keys))
	var key string
	var revision int64
	_, err = pgx.ForEachRow(rows, []any{&key, &revision}, func() error { found[key] = revision; return nil })
	return found, err
}

func (s *postgresStore) Source() signals.Source[string] { return s.source }
func (s *postgresStore) Close()                         { s.reads.Close(); s.puts.Close() }
