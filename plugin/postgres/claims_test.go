package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/claims"
	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

const takeOneJob = `DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id`

// Three replicas wait for jobs. Each job goes to one worker, and costs at most two looks for each
// replica. If a process dies between its hint and its commit, an audit of another one finds the job.
func TestOneOfManyAcrossProcesses(t *testing.T) {
	const replicas, workers, jobs = 3, 10, 30
	d := startDatabase(t)
	pool := d.pool()
	_, err := pool.Exec(t.Context(), "CREATE TABLE jobs (id int PRIMARY KEY)")
	require.NoError(t, err)
	var looks atomic.Int64
	look := func(ctx context.Context, _ string) (job int, found bool, err error) {
		looks.Add(1)
		err = pool.QueryRow(ctx, takeOneJob).Scan(&job)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, false, nil
		}
		return job, err == nil, err
	}

	ctx, stop := context.WithCancel(t.Context())
	got := make(chan int, replicas*workers)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for range replicas {
		p, err := purgatory.New[string]("claims", purgatory.WithFirstInFirstOut())
		require.NoError(t, err)
		c := claims.New(p, look)
		hints, err := signals.To[string](c, signals.WithLag(0), signals.WithAudit(time.Second))
		require.NoError(t, err)
		source, err := postgres.Listen(d.connect, "jobs")
		require.NoError(t, err)
		running.Go(func() {
			_ = hints.Run(ctx, source)
			_ = p.Shutdown(context.Background())
		})
		for range workers {
			running.Go(func() {
				for ctx.Err() == nil {
					if job, err := c.Claim(ctx, time.Hour, "jobs"); err == nil {
						got <- job
					}
				}
			})
		}
		require.Eventually(t, func() bool { return hints.Stats().Standing && p.NumDelayed() == workers }, time.Minute, time.Millisecond)
	}

	began := time.Now()
	before := looks.Load()
	for job := range jobs {
		require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO jobs VALUES ($1)", job); err != nil {
				return err
			}
			return postgres.Notify(ctx, tx, "jobs", signals.Unknown, "jobs")
		}))
		require.Equal(t, job, <-got)
	}
	audits := replicas * (int64(time.Since(began)/time.Second) + 2) // on a slow machine some come meanwhile
	took := looks.Load() - before
	t.Logf("%d jobs, %d looks", jobs, took)
	assert.LessOrEqual(t, took, 2*replicas*jobs+audits)

	// A process takes a job before the hint comes, and dies before it commits. The others have looked in vain.
	dying, err := d.connect(t.Context())
	require.NoError(t, err)
	lost := jobs
	for ; ; lost++ {
		for last := int64(-1); last != looks.Load(); time.Sleep(20 * time.Millisecond) {
			last = looks.Load() // until nobody looks any more
		}
		_, err = dying.Exec(t.Context(), "INSERT INTO jobs VALUES ($1)", lost)
		require.NoError(t, err)
		_, err := dying.Exec(t.Context(), "BEGIN")
		require.NoError(t, err)
		var job int
		if err := dying.QueryRow(t.Context(), takeOneJob).Scan(&job); err == nil {
			break
		}
		require.Equal(t, lost, <-got, "an audit came first")
		_, err = dying.Exec(t.Context(), "COMMIT")
		require.NoError(t, err)
	}
	require.NoError(t, postgres.Notify(t.Context(), pool, "jobs", signals.Unknown, "jobs"))
	for before := looks.Load(); looks.Load() < before+replicas; {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, dying.Close(t.Context()))
	assert.Equal(t, lost, <-got)
}
