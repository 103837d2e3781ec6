package recipes

import (
	"context"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

// redisServer is a Redis server on a loopback port.
type redisServer struct {
	t       *testing.T
	dir     string
	addr    string
	command *exec.Cmd
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("SKIPPED: no Redis server is installed here (Debian: apt-get install redis-server)")
	}
	s := &redisServer{t: t, dir: t.TempDir(), addr: signalstest.FreeAddress(t)}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *redisServer) start() {
	_, port, _ := net.SplitHostPort(s.addr)
	s.command = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--user", "source", "on", ">source", "+@all", "~*")
	require.NoError(s.t, s.command.Start())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = c.Close()
			return
		}
		require.True(s.t, time.Now().Before(deadline), "%v", err)
	}
}

func (s *redisServer) stop() {
	_ = s.command.Process.Signal(syscall.SIGKILL)
	_ = s.command.Wait()
}

func TestConformanceOfARedisStream(t *testing.T) {
	t.Parallel()
	signalstest.Run(t, func(t *testing.T) signalstest.Engine[string] {
		s := startRedis(t)
		var hearing conns
		listener := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, Username: "source", Password: "source", Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return hearing.dial(ctx, addr)
		}})
		writer := redis.NewClient(&redis.Options{Addr: s.addr})
		t.Cleanup(func() { _ = listener.Close(); _ = writer.Close() })
		var state sync.Map
		write := func(ctx context.Context, key string, value int64) (err error) {
			state.Store(key, value)
			for ctx.Err() == nil {
				err = writer.XAdd(ctx, &redis.XAddArgs{Stream: "hints", MaxLen: 1000, Values: map[string]any{"key": key, "position": value}}).Err()
				if err == nil {
					return nil
				}
				time.Sleep(time.Millisecond)
			}
			return err
		}
		return signalstest.Engine[string]{
			Source: func() signals.Source[string] { return stream(listener, "hints") },
			Key:    orderKey,
			Write:  write,
			Read: func(_ context.Context, key string) (int64, error) {
				value, _ := state.Load(key)
				n, _ := value.(int64)
				return n, nil
			},
			Cut:   hearing.cut,
			Stop:  s.stop,
			Start: s.start,
			Revoke: func() {
				require.NoError(t, writer.Do(t.Context(), "ACL", "SETUSER", "source", "-xread").Err())
			},
			Restore: func() {
				require.NoError(t, writer.Do(t.Context(), "ACL", "SETUSER", "source", "+xread").Err())
			},
			Overflow: func(ctx context.Context, _ func()) error {
				for i := range 4000 { // more than the stream keeps
					if err := write(ctx, orderKey(i), 1); err != nil {
						return err
					}
				}
				return nil
			},
		}
	})
}
