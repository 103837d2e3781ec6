package wire

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener whose connections are in memory, so that their time is the test's.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return nil }

func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.dialed <- server
	return client
}

const stall = 30 * time.Second

// inMemory runs a test with a server on pipes, in time that passes when all wait.
func inMemory(t *testing.T, test func(t *testing.T, s *Server, l pipes)) {
	inMemoryWith(t, func() Handler { return echo{} }, test)
}

func inMemoryWith(t *testing.T, h func() Handler, test func(t *testing.T, s *Server, l pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := pipes{make(chan net.Conn), make(chan struct{})}
		s := Serve(l, spoken, h(), &Gate{}, stall)
		defer s.Close()
		test(t, s, l)
	})
}

// pass lets time pass, and all that it brings about happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func send(t *testing.T, conn net.Conn, bytes []byte) {
	t.Helper()
	_, err := conn.Write(bytes) // returns when the server has read it
	require.NoError(t, err)
}

// TestAFrameThatStopsEndsItsConnection, wherever it stops: in its length, behind it, in
// the middle, before the last byte. Nothing of it is left at the server, and a
// connection that is idle between frames stays for as long as it likes.
func TestAFrameThatStopsEndsItsConnection(t *testing.T) {
	inMemory(t, func(t *testing.T, s *Server, l pipes) {
		request := frame(8 << 20)
		idle := []net.Conn{l.dial(), l.dial()}
		send(t, idle[1], frame(10))
		answered(t, idle[1])
		cuts := []int{1, 4, 14, piece, 5 << 20, len(request) - 1}
		var stopped []net.Conn
		for _, cut := range cuts {
			conn := l.dial()
			send(t, conn, request[:cut])
			stopped = append(stopped, conn)
		}
		pass(stall - 1)
		require.Equal(t, len(idle)+len(cuts), s.Conns(), "they have the server's patience")
		pass(1)
		require.Equal(t, len(idle), s.Conns(), "and no more")
		for _, conn := range stopped {
			_, err := conn.Write([]byte{0})
			require.Error(t, err)
		}
		pass(100 * stall)
		for _, conn := range idle {
			send(t, conn, frame(10))
			answered(t, conn)
		}
	})
}

// TestASlowFrameThatGoesOnIsTaken: a client that sends a piece within the server's
// patience may take many times that for the whole. One that sends a byte at a time, each
// soon after the one before, does not get as far.
func TestASlowFrameThatGoesOnIsTaken(t *testing.T) {
	inMemory(t, func(t *testing.T, s *Server, l pipes) {
		slow, trickle := l.dial(), l.dial()
		rest := frame(2 << 20)
		send(t, slow, rest[:4])
		send(t, trickle, rest[:4])
		for rest = rest[4:]; len(rest) > piece; rest = rest[piece:] {
			pass(stall - 1)
			send(t, slow, rest[:piece])
		}
		send(t, slow, rest)
		answered(t, slow)
		require.Equal(t, 1, s.Conns(), "the other has sent nothing")

		trickle = l.dial()
		sent := 0
		for ; sent < 100; sent++ {
			if _, err := trickle.Write(frame(2 << 20)[sent : sent+1]); err != nil {
				break
			}
			pass(stall / 10)
		}
		require.Less(t, sent, 100)
	})
}

// TestAClientIsNotBlamedForTheServersDelay: one whose next frame has no room, because
// its answers are not there yet, is not cut off for what is not read from it.
func TestAClientIsNotBlamedForTheServersDelay(t *testing.T) {
	var e echo
	inMemoryWith(t, func() Handler { e.wait = make(chan struct{}); return e }, func(t *testing.T, s *Server, l pipes) {
		conn := l.dial()
		send(t, conn, frame(12<<20))
		next := frame(6 << 20)
		go func() { _, _ = conn.Write(next) }()
		pass(10 * stall)
		require.Equal(t, 1, s.Conns())
		e.wait <- struct{}{}
		answered(t, conn)
		e.wait <- struct{}{}
		answered(t, conn)
	})
}
