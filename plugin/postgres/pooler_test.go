package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/plugin/postgres"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// proxy carries connections to a server. While it is deaf it drops notifications.
type proxy struct {
	listener net.Listener
	to       string
	deaf     atomic.Bool

	mu    sync.Mutex
	pairs []*pair
}

// pair is a client's connection and that to the server, which may be replaced.
type pair struct {
	startup []byte
	mu      sync.Mutex
	server  net.Conn
}

func (p *pair) current() net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

func startProxy(t *testing.T, d *database) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	x := &proxy{listener: l, to: d.address}
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { x.carry(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); carrying.Wait() }) // after those of the connections
	return x
}

func (x *proxy) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, fmt.Sprintf("postgres://source@%s/postgres?sslmode=disable&connect_timeout=5&application_name=source", x.listener.Addr()))
}

func (x *proxy) carry(client net.Conn) {
	defer client.Close()
	size := make([]byte, 4)
	if _, err := io.ReadFull(client, size); err != nil {
		return
	}
	rest := make([]byte, binary.BigEndian.Uint32(size)-4)
	if _, err := io.ReadFull(client, rest); err != nil {
		return
	}
	p := &pair{startup: append(size, rest...)}
	server, err := x.dial(p)
	if err != nil {
		return
	}
	p.server = server
	x.mu.Lock()
	x.pairs = append(x.pairs, p)
	x.mu.Unlock()
	var forward sync.WaitGroup
	defer forward.Wait()
	defer client.Close()
	forward.Go(func() {
		defer func() { _ = p.current().Close() }()
		buffer := make([]byte, 1<<16)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			if _, err := p.current().Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	for {
		server := p.current()
		frame, err := readFrame(server)
		if err != nil && server != p.current() {
			continue // it was replaced
		}
		if err != nil {
			return
		}
		if frame[0] == 'A' && x.deaf.Load() {
			continue
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

// dial connects to the server, and says what the client has said first.
func (x *proxy) dial(p *pair) (net.Conn, error) {
	server, err := net.Dial("tcp", x.to)
	if err != nil {
		return nil, err
	}
	_, err = server.Write(p.startup)
	return server, err
}

// readFrame reads a message of the server.
func readFrame(from io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	frame := append(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
	_, err := io.ReadFull(from, frame[5:])
	return frame, err
}

// failOver gives each client another session, and closes none of their connections.
func (x *proxy) failOver(t *testing.T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.pairs {
		server, err := x.dial(p)
		require.NoError(t, err)
		for last := byte(0); last != 'Z'; { // it is ready
			frame, err := readFrame(server)
			require.NoError(t, err)
			last = frame[0]
		}
		p.mu.Lock()
		before := p.server
		p.server = server
		p.mu.Unlock()
		_ = before.Close()
	}
}

// startPooler starts pgbouncer, or skips the test where it is not installed.
func startPooler(t *testing.T, d *database, mode string) (connect func(context.Context) (*pgx.Conn, error)) {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if _, missing := os.Stat("/usr/sbin/pgbouncer"); err != nil && missing == nil {
		bin, err = "/usr/sbin/pgbouncer", nil
	}
	if err != nil {
		t.Skip("SKIPPED: pgbouncer is not installed here (Debian: apt-get install pgbouncer)")
	}
	address := signalstest.FreeAddress(t)
	file := filepath.Join(d.dir, "pgbouncer-"+mode+".ini")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `[databases]
postgres = host=127.0.0.1 port=%s dbname=postgres user=test
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = %s
`, port(d.address), port(address), mode), 0o644))
	pooler := exec.Command(bin, "-q", file)
	pooler.SysProcAttr = d.as
	require.NoError(t, pooler.Start())
	t.Cleanup(func() { _ = pooler.Process.Signal(syscall.SIGTERM); _ = pooler.Wait() })
	url := "postgres://test@" + address + "/postgres?sslmode=disable&connect_timeout=5&application_name=pooled"
	require.NoError(t, insist(t.Context(), func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}))
	return func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) }
}

// A pooler that lends a session for a transaction or a statement accepts LISTEN, and delivers nothing.
// In session mode it carries what the server says.
func throughAPooler(t *testing.T, d *database) {
	for mode, stands := range map[string]bool{"session": true, "transaction": false, "statement": false} {
		t.Run(mode, func(t *testing.T) {
			defer postgres.SetRhythm(200*time.Millisecond, 2*time.Second)()
			source, err := postgres.Listen(startPooler(t, d, mode), "pooled")
			require.NoError(t, err)
			h := heard{make(chan change, 100), make(chan error, 10)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, source, h) }()
			if !stands {
				err := receive(t, ended, "the end of a source that hears nothing")
				assert.ErrorIs(t, err, signals.ErrDeaf)
				assert.ErrorContains(t, err, "pooler in transaction or statement mode")
				assert.Empty(t, h.gaps, "it has stood")
				return
			}
			_ = receive(t, h.gaps, "that it stands")
			pool := d.pool()
			for i := range 50 {
				require.NoError(t, postgres.Notify(t.Context(), pool, "pooled", int64(i), "key"))
				assert.Equal(t, change{"key", int64(i)}, receive(t, h.changes, "a hint"))
			}
			time.Sleep(2500 * time.Millisecond) // longer than a source may be deaf
			assert.Empty(t, ended)
			cancel()
			assert.ErrorIs(t, receive(t, ended, "the end"), context.Canceled)
		})
	}
}

// A failover behind a proxy that keeps the client's connection: the new session does not listen. The source is run
// again, and hears.
func failoverBehindAProxy(t *testing.T, d *database) {
	defer postgres.SetRhythm(200*time.Millisecond, 2*time.Second)()
	x := startProxy(t, d)
	source, err := postgres.Listen(x.connect, "failover")
	require.NoError(t, err)
	h := heard{make(chan change, 100), make(chan error, 10)}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	again := func() { go func() { ended <- run(ctx, source, h) }() }
	again()
	_ = receive(t, h.gaps, "that it stands")
	pool := d.pool()
	for i := range 4 {
		require.NoError(t, postgres.Notify(t.Context(), pool, "failover", int64(i), "key"))
		assert.Equal(t, change{"key", int64(i)}, receive(t, h.changes, "a hint before the failover"))
	}
	x.failOver(t)
	err = receive(t, ended, "the end of a source that does not listen any more")
	assert.Regexp(t, "session is not the one that listens|no probe has come back", err, "whichever is noticed first")
	again()
	_ = receive(t, h.gaps, "that it stands again")
	require.NoError(t, postgres.Notify(t.Context(), pool, "failover", 7, "key"))
	assert.Equal(t, change{"key", 7}, receive(t, h.changes, "a hint after the failover"))
	cancel()
	assert.ErrorIs(t, receive(t, ended, "the end"), context.Canceled)
}

// A server that ends quiet sessions after a time that is shorter than the pause between two questions.
func idleSessions(t *testing.T, d *database) {
	source, err := postgres.Listen(func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.Connect(ctx, d.url()+"&options=-c%20idle_session_timeout%3D2000") // on a busy machine half a second is soon over
	}, "idle")
	require.NoError(t, err)
	h := heard{make(chan change, 10), make(chan error, 10)}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- run(ctx, source, h) }()
	_ = receive(t, h.gaps, "that it stands")
	time.Sleep(3 * time.Second)
	assert.Empty(t, ended, "the server has ended the session")
	require.NoError(t, postgres.Notify(t.Context(), d.pool(), "idle", 7, "key"))
	assert.Equal(t, change{"key", 7}, receive(t, h.changes, "a hint"))
	cancel()
	assert.ErrorIs(t, receive(t, ended, "the end"), context.Canceled)
}

// deafEngine is an engine that can deliver nothing, and break nothing.
func (d *database) deafEngine(t *testing.T) signalstest.Engine[string] {
	x := startProxy(t, d)
	e := d.engineBehind(x.connect)
	e.Deafen = func() { x.deaf.Store(true) }
	e.Undeafen = func() { x.deaf.Store(false) }
	return e
}
