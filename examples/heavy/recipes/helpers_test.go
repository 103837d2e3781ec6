package recipes

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// hint is what a sink was told: a change, or with an empty key, a gap.
type hint struct {
	key      string
	position int64
}

// sink collects what it is told.
type sink chan hint

func (s sink) Changed(key string, position int64) { s <- hint{key, position} }
func (s sink) Missed(error)                       { s <- hint{} }

// A source that hears itself stands when its only probe has come back.
func (s sink) Subscribed(subscription signals.Subscription) {
	_ = subscription.Probe(context.Background(), 1)
}
func (s sink) Heard(uint64) { s <- hint{} }

func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		require.FailNow(t, "nothing came within a minute")
	}
	return v
}

// conns are connections that a test can cut. It is safe for concurrent use.
type conns struct {
	mu  sync.Mutex
	all []net.Conn
}

func (c *conns) add(conn net.Conn, err error) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.all = append(c.all, conn)
	}
	return conn, err
}

func (c *conns) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		conn.Close()
	}
	c.all = nil
}

func (c *conns) dial(ctx context.Context, addr string) (net.Conn, error) {
	return c.add(new(net.Dialer).DialContext(ctx, "tcp", addr))
}

const orders = "orders/" // the keys of the tests begin with it

func orderKey(i int) string { return fmt.Sprint(orders, i) }

// insist calls f until it succeeds: a writer tries again while the engine is away.
func insist(ctx context.Context, f func(context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := f(within)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
