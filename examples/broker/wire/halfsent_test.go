package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/memory"
	"github.com/delayedop/purgatory/purgatory"
)

const patience = 30 * time.Second

// echo answers every request at once, or when it is told to.
type echo struct{ wait chan struct{} }

func (e echo) Handle(_ *Conn, req kmsg.Request, reply func(kmsg.Response)) {
	if e.wait == nil {
		reply(req.ResponseKind())
		return
	}
	go func() {
		<-e.wait
		reply(req.ResponseKind())
	}()
}

func (echo) Gone(*Conn) {}

func serve(t *testing.T, h Handler, limits Limits) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := Serve(l, everything(), h, limits)
	t.Cleanup(s.Close)
	return s
}

func dialRaw(t *testing.T, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func budget(t *testing.T, limit int) *memory.Budget {
	t.Helper()
	waits, err := purgatory.New[string]("memory")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, waits.Shutdown(context.Background())) })
	return memory.New("requests", limit, waits)
}

// frame is a produce of so many bytes of records.
func frame(size int) []byte {
	req := filled(0, 9).(*kmsg.ProduceRequest)
	req.Topics[0].Partitions[0].Records = make([]byte, size)
	return appendRequest(nil, 42, "client", req)
}

func answered(t *testing.T, conn net.Conn) {
	t.Helper()
	got, err := readFrame(bufio.NewReader(conn), maxResponseFrame, anyMemory)
	require.NoError(t, err)
	require.Equal(t, uint32(42), binary.BigEndian.Uint32(got))
}

// TestHalfSentRequestsBlockNobody: many announce a megabyte and send ten bytes.
// They hold what they have sent, not what they have announced.
func TestHalfSentRequestsBlockNobody(t *testing.T) {
	memory := budget(t, 2<<20)
	s := serve(t, echo{}, Limits{Memory: memory})
	for range 100 {
		conn := dialRaw(t, s)
		_, err := conn.Write(frame(1 << 20)[:14])
		require.NoError(t, err)
	}
	for range 3 {
		conn := dialRaw(t, s)
		_, err := conn.Write(frame(1 << 20))
		require.NoError(t, err)
		answered(t, conn)
	}
	require.Eventually(t, func() bool { return memory.Used() <= 100*leastChunk }, patience, time.Millisecond)
}

// TestHalfSentRequestsHaveADeadline, from their first byte on.
func TestHalfSentRequestsHaveADeadline(t *testing.T) {
	memory := budget(t, 1<<20)
	s := serve(t, echo{}, Limits{Memory: memory, Transfer: 50 * time.Millisecond})
	for _, sent := range []int{1, 3, 4, 100, 10_000} {
		conn := dialRaw(t, s)
		_, err := conn.Write(frame(20_000)[:sent])
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "%d bytes: still open", sent)
	}
	idle := dialRaw(t, s)
	time.Sleep(100 * time.Millisecond) // nothing sent: no deadline as yet
	_, err := idle.Write(frame(100))
	require.NoError(t, err)
	answered(t, idle)
	require.Eventually(t, func() bool { return memory.Used() == 0 }, patience, time.Millisecond)
}

// TestRequestsWaitForMemory: what is not answered yet counts, and the next one is
// read when something has been.
func TestRequestsWaitForMemory(t *testing.T) {
	memory := budget(t, 3<<20)
	e := echo{wait: make(chan struct{})}
	s := serve(t, e, Limits{Memory: memory})
	var conns []net.Conn
	for range 8 {
		conn := dialRaw(t, s)
		conns = append(conns, conn)
		go func() { _, _ = conn.Write(frame(900 << 10)) }()
	}
	require.Eventually(t, func() bool { return memory.Used() > memory.Limit()/2 }, patience, time.Millisecond)
	go func() {
		for range 8 {
			e.wait <- struct{}{}
			if memory.Used() > memory.Limit() {
				t.Error("beyond the limit")
			}
		}
	}()
	for _, conn := range conns {
		answered(t, conn)
	}
	require.Eventually(t, func() bool { return memory.Used() == 0 }, patience, time.Millisecond)
}

// TestMemoryComesBackFromWhoHasGone, whatever it had sent.
func TestMemoryComesBackFromWhoHasGone(t *testing.T) {
	memory := budget(t, 16<<20)
	e := echo{wait: make(chan struct{})}
	s := serve(t, e, Limits{Memory: memory})
	for range 10 {
		conn := dialRaw(t, s)
		_, err := conn.Write(append(frame(100<<10), frame(1 << 20)[:300<<10]...))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return memory.Used() > 300<<10 }, patience, time.Millisecond)
		require.NoError(t, conn.Close())
		e.wait <- struct{}{}
		require.Eventually(t, func() bool { return memory.Used() == 0 }, patience, time.Millisecond)
	}
}
