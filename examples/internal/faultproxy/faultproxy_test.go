package faultproxy

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// echo returns the address of a server that sends back what it is sent.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute))) // bounds what would otherwise hang
	t.Cleanup(func() { c.Close() })
	return c
}

func exchange(t *testing.T, c net.Conn, what string) {
	t.Helper()
	_, err := c.Write([]byte(what))
	require.NoError(t, err)
	got := make([]byte, len(what))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, what, string(got))
}

func TestACutEndsConnectionsAndLaterOnesPass(t *testing.T) {
	p, err := Start(echo(t))
	require.NoError(t, err)
	defer p.Close()
	c := dial(t, p)
	exchange(t, c, "before")
	p.Cut()
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	exchange(t, dial(t, p), "after")
}

func TestWhatIsHeldBackArrivesLater(t *testing.T) {
	p, err := Start(echo(t))
	require.NoError(t, err)
	defer p.Close()
	for _, way := range []struct{ there, back bool }{{true, true}, {true, false}, {false, true}} {
		c := dial(t, p)
		exchange(t, c, "before")
		p.Hold(way.there, way.back)
		_, err := c.Write([]byte("held"))
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		p.Hold(false, false)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		got := make([]byte, 4)
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, "held", string(got))
	}
}

// TestCloseEndsWhatIsBeingConnected: also a connection that nobody has accepted yet, or whose other half is being made.
func TestCloseEndsWhatIsBeingConnected(t *testing.T) {
	to := echo(t)
	for range 200 {
		p, err := Start(to)
		require.NoError(t, err)
		c := dial(t, p)
		p.Close()
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
}

func TestCloseEndsWhatIsHeldBack(t *testing.T) {
	p, err := Start(echo(t))
	require.NoError(t, err)
	c := dial(t, p)
	exchange(t, c, "before")
	p.Hold(true, true)
	_, err = c.Write([]byte("held"))
	require.NoError(t, err)
	p.Close()
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestNobodyToPassOnTo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	p, err := Start(l.Addr().String())
	require.NoError(t, err)
	defer p.Close()
	_, err = dial(t, p).Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
