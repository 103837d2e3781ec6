package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// database is a PostgreSQL server on a loopback port, with its files in a temporary folder.
type database struct {
	t       *testing.T
	bin     string
	dir     string
	address string
	as      *syscall.SysProcAttr // the user that the server runs as, which must not be root
	server  *exec.Cmd

	settings []string // further ones
}

// startDatabase starts a server, or skips the test where there is no server to start.
func startDatabase(t *testing.T) *database {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil && len(found) == 0 {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skip("SKIPPED: no PostgreSQL server is installed here (Debian: apt-get install postgresql)")
	}
	dir, err := os.MkdirTemp("", "postgres-test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &database{t: t, bin: filepath.Dir(found[len(found)-1]), dir: dir}
	if os.Geteuid() == 0 {
		d.as = credentials(t)
		require.NoError(t, os.Chown(dir, int(d.as.Credential.Uid), int(d.as.Credential.Gid)))
	}
	d.address = signalstest.FreeAddress(t)
	initdb := d.command("initdb", "-D", d.data(), "-A", "trust", "-U", "test", "-E", "UTF8", "--locale=C", "--no-sync")
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, string(out))
	d.start()
	t.Cleanup(d.stop)
	d.run("CREATE ROLE source LOGIN")
	return d
}

// credentials returns a user without privileges.
func credentials(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
	}
	t.Skip("SKIPPED: PostgreSQL does not run as root, and there is no other user")
	return nil
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func (d *database) data() string { return filepath.Join(d.dir, "data") }

func (d *database) command(name string, arguments ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(d.bin, name), arguments...)
	c.Dir, c.SysProcAttr = d.dir, d.as
	return c
}

func (d *database) start() {
	d.server = d.command("postgres", append([]string{
		"-D", d.data(), "-p", port(d.address),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + d.dir, "-c", "fsync=off", "-c", "max_connections=300",
	}, d.settings...)...)
	require.NoError(d.t, d.server.Start())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), d.url())
		if err == nil {
			_ = conn.Close(context.Background())
			return
		}
		require.True(d.t, time.Now().Before(deadline), "%v", err)
	}
}

// stop stops the server as a failover does: connections are cut.
func (d *database) stop() {
	if d.server == nil {
		return
	}
	_ = d.server.Process.Signal(syscall.SIGINT)
	_ = d.server.Wait()
	d.server = nil
}

func (d *database) url() string {
	return "postgres://test@" + d.address + "/postgres?sslmode=disable&connect_timeout=5"
}

func (d *database) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, d.url()+"&application_name=source&user=source")
}

// run runs statements, as often as need be.
func (d *database) run(statements ...string) {
	require.NoError(d.t, insist(context.Background(), func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, d.url())
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (d *database) pool() *pgxpool.Pool {
	d.t.Helper()
	config, err := pgxpool.ParseConfig(d.url() + "&application_name=others&pool_max_conns=8")
	require.NoError(d.t, err)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(d.t, err)
	d.t.Cleanup(pool.Close)
	return pool
}

var engines atomic.Int64

const cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'source'"

func key(i int) string { return fmt.Sprintf("key %d'; DROP TABLE x", i) }

// insist calls f until it succeeds: a writer tries again where the server is away.
func insist(ctx context.Context, f func(context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := f(within)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, postgres.ErrKey) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// engine is a table of its own, whose writers notify in their transactions.
func (d *database) engine() signalstest.Engine[string] { return d.engineBehind(d.connect) }

// engineBehind is engine, whose source connects with connect.
func (d *database) engineBehind(connect func(context.Context) (*pgx.Conn, error)) signalstest.Engine[string] {
	d.t.Helper()
	n := engines.Add(1)
	table, channel := fmt.Sprintf("state%d", n), fmt.Sprintf("Hints-%d", n)
	pool := d.pool()
	_, err := pool.Exec(context.Background(), "CREATE TABLE "+table+" (key text PRIMARY KEY, value bigint NOT NULL)")
	require.NoError(d.t, err)
	return signalstest.Engine[string]{
		Source: func() signals.Source[string] {
			s, err := postgres.Listen(connect, channel)
			require.NoError(d.t, err)
			return s
		},
		Key: key,
		Write: func(ctx context.Context, key string, value int64) error {
			return insist(ctx, func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = $2", key, value)
					if err != nil {
						return err
					}
					return postgres.Notify(ctx, tx, channel, signals.Unknown, key)
				})
			})
		},
		Read: func(ctx context.Context, key string) (value int64, err error) {
			err = insist(ctx, func(ctx context.Context) error {
				err := pool.QueryRow(ctx, "SELECT value FROM "+table+" WHERE key = $1", key).Scan(&value)
				if errors.Is(err, pgx.ErrNoRows) {
					return nil
				}
				return err
			})
			return value, err
		},
		Cut:   func() { _, _ = pool.Exec(context.Background(), cut) },
		Stop:  d.stop,
		Start: d.start,
		// There is no right to listen but that to be connected.
		Revoke:  func() { d.run("ALTER ROLE source NOLOGIN", cut) },
		Restore: func() { d.run("ALTER ROLE source LOGIN") },
		Cuts:    cuts(),
	}
}

// cuts is how many the random form of the test makes: POSTGRES_CUTS=1000 for the long form.
func cuts() int {
	if n, err := strconv.Atoi(os.Getenv("POSTGRES_CUTS")); err == nil {
		return n
	}
	return 20
}
