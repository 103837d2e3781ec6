package postgres_test

import (
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// startStandby starts a standby of d, which is always behind it.
func startStandby(t *testing.T, d *database, behind time.Duration) *database {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgres-standby")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &database{t: t, bin: d.bin, dir: dir, as: d.as}
	if d.as != nil {
		require.NoError(t, os.Chown(dir, int(d.as.Credential.Uid), int(d.as.Credential.Gid)))
	}
	s.address = signalstest.FreeAddress(t)
	backup := s.command("pg_basebackup", "-h", "127.0.0.1", "-p", port(d.address), "-U", "test", "-D", s.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	out, err := backup.CombinedOutput()
	require.NoError(t, err, string(out))
	s.settings = []string{"-c", "recovery_min_apply_delay=" + strconv.FormatInt(behind.Milliseconds(), 10) + "ms"}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// Notifications come from the primary, and the waits read at a standby that applies each commit
// two seconds later. POSTGRES_WAITS=5000 for the long form.
func readsAtAStandby(t *testing.T, d *database) {
	const behind, together = 2 * time.Second, 200
	e := d.engine()
	standby := startStandby(t, d, behind)
	config, err := pgxpool.ParseConfig(standby.url() + "&pool_max_conns=20")
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	all := together
	if more, err := strconv.Atoi(os.Getenv("POSTGRES_WAITS")); err == nil {
		all = more
	}
	r := replica{t: t, e: e, pool: pool, table: "state" + strconv.FormatInt(engines.Load(), 10)}
	p, stop := r.listen(signals.WithLag(behind))
	time.Sleep(2*behind + behind/4) // the re-checks that follow the subscription are over
	answered := 0
	for ; answered < all; answered += together {
		n, earliest := r.round(p, answered, together, time.Minute)
		require.Equal(t, together, n)
		require.GreaterOrEqual(t, earliest, behind, "a read saw its write too early: the standby was not behind")
	}
	stop()
	t.Logf("%d of %d answered", answered, all)
	p, stop = r.listen(signals.WithLag(0))
	n, _ := r.round(p, all, together, behind+time.Second)
	stop()
	t.Logf("without repeats: %d of %d answered", n, together)
	assert.Less(t, n, together, "without repeats, waits whose read came too early sleep")
}

// replica is what waits read whose keys e writes.
type replica struct {
	t     *testing.T
	e     signalstest.Engine[string]
	pool  *pgxpool.Pool
	table string
}

// listen returns a purgatory that is told of writes until stop is called.
func (r replica) listen(options ...signals.Option) (p *purgatory.Purgatory[string], stop func()) {
	p, err := purgatory.New[string]("test")
	require.NoError(r.t, err)
	runner, err := signals.To(p, append(options, signals.WithAudit(0))...)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = runner.Run(ctx, r.e.Source()) })
	for runner.Stats().Rechecks == 0 {
		time.Sleep(time.Millisecond)
	}
	return p, func() { cancel(); running.Wait(); assert.NoError(r.t, p.Close()) }
}

// round has n waits begin, and then writes their keys. It returns how many were answered within
// patience of the last write, and the shortest time from the beginning of a write to a read that
// saw it.
func (r replica) round(p *purgatory.Purgatory[string], first, n int, patience time.Duration) (answered int, earliest time.Duration) {
	t := r.t
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reading, waiting sync.WaitGroup
	var mu sync.Mutex
	began := make([]time.Time, n) // when the write began
	earliest = math.MaxInt64
	for i := range n {
		key := key(first + i)
		reading.Add(1)
		waiting.Go(func() {
			var once sync.Once
			_, err := signals.AwaitRead(ctx, p, time.Hour, func(ctx context.Context) (value int64, ok bool, err error) {
				defer once.Do(reading.Done)
				err = r.pool.QueryRow(ctx, "SELECT value FROM "+r.table+" WHERE key = $1", key).Scan(&value)
				if errors.Is(err, pgx.ErrNoRows) {
					return 0, false, nil
				}
				return value, err == nil, err
			}, key)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				answered++
				earliest = min(earliest, time.Since(began[i]))
			}
		})
	}
	reading.Wait()
	for i := range n {
		mu.Lock()
		began[i] = time.Now()
		mu.Unlock()
		require.NoError(t, r.e.Write(ctx, key(first+i), 1))
	}
	late := time.AfterFunc(patience, cancel)
	defer late.Stop()
	waiting.Wait()
	return answered, earliest
}
