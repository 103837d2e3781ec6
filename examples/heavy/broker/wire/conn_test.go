package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	patience = 30 * time.Second // of a test
	never    = time.Hour        // a server's patience that no test outlasts
)

// echo answers every request at once, or when it is told to.
type echo struct {
	wait  chan struct{}
	taken *atomic.Int64 // requests, if somebody counts them
}

func (e echo) Handle(_ *Conn, req kmsg.Request, reply func(kmsg.Response)) {
	if e.taken != nil {
		e.taken.Add(1)
	}
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

func serve(t *testing.T, h Handler) *Server { return serveWith(t, h, &Gate{}) }

func serveWith(t *testing.T, h Handler, gate *Gate) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := Serve(l, spoken, h, gate, never)
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

// frame is a produce of so many bytes of records.
func frame(size int) []byte {
	req := produceOf(9, make([]byte, size))
	req.Topics[0].Partitions = req.Topics[0].Partitions[:1]
	return frameOf(req)
}

// answered reads an answer.
func answered(t *testing.T, r io.Reader) {
	t.Helper()
	var head [8]byte
	_, err := io.ReadFull(r, head[:])
	require.NoError(t, err)
	require.Equal(t, uint32(42), binary.BigEndian.Uint32(head[4:]))
	_, err = io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head[:]))-4)
	require.NoError(t, err)
}

// TestHalfSentRequestsBlockNobody: forty announce eight megabytes and send none, or
// all but one byte. Others are answered meanwhile, as many megabytes as they send.
func TestHalfSentRequestsBlockNobody(t *testing.T) {
	const large = 8 << 20
	s := serve(t, echo{})
	for i := range 40 {
		conn := dialRaw(t, s)
		request := frame(large)
		sent := 14
		if i < 10 {
			sent = len(request) - 1
		}
		_, err := conn.Write(request[:sent])
		require.NoError(t, err)
	}
	for range 3 {
		conn := dialRaw(t, s)
		_, err := conn.Write(frame(large))
		require.NoError(t, err)
		answered(t, conn)
	}
	require.Eventually(t, func() bool { // those that were answered hold nothing once the answer has left
		holding := 0
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.mu.conns {
			if !c.memory.TryAcquire(maxFrame) {
				holding++
			} else {
				c.memory.Release(maxFrame)
			}
		}
		return holding == 40
	}, patience, time.Millisecond, "they are still there")
}

// TestAConnectionIsBounded: what is not answered yet counts, the connection that has
// sent its share is read from no further, and goes on when an answer has left.
// Another is answered meanwhile.
func TestAConnectionIsBounded(t *testing.T) {
	var taken atomic.Int64
	e := echo{wait: make(chan struct{}), taken: &taken}
	s := serve(t, e)
	const size, fit, sent = 3 << 20, 5, 9
	conn := dialRaw(t, s)
	go func() {
		for range sent {
			_, _ = conn.Write(frame(size))
		}
	}()
	require.Eventually(t, func() bool { return taken.Load() == fit }, patience, time.Millisecond)
	other := dialRaw(t, s)
	_, err := other.Write(frame(size))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return taken.Load() == fit+1 }, patience, time.Millisecond)
	close(e.wait)
	answered(t, other)
	r := bufio.NewReader(conn)
	for range sent {
		answered(t, r)
	}
}

// TestOneLateAnswerAtATime: of a client that asks much and reads nothing, one answer
// is made, not all.
func TestOneLateAnswerAtATime(t *testing.T) {
	var made atomic.Int64
	s := serve(t, lateEcho{&made})
	conn := dialRaw(t, s)
	for range 50 {
		_, err := conn.Write(frame(10))
		require.NoError(t, err)
	}
	answered(t, conn) // and now the socket is full
	time.Sleep(50 * time.Millisecond)
	require.Less(t, made.Load(), int64(10))
}

// lateEcho answers with more than a socket takes.
type lateEcho struct{ made *atomic.Int64 }

func (e lateEcho) Handle(_ *Conn, req kmsg.Request, reply func(kmsg.Response)) {
	reply(Late{Make: func() kmsg.Response {
		e.made.Add(1)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		st := kmsg.NewProduceResponseTopic()
		st.Topic = strings.Repeat("x", 8<<20)
		resp.Topics = append(resp.Topics, st)
		return resp
	}})
}

func (lateEcho) Gone(*Conn) {}

// TestAFrozenServer takes nothing and answers nothing, and does both afterwards.
func TestAFrozenServer(t *testing.T) {
	var gate Gate
	var taken atomic.Int64
	e := echo{wait: make(chan struct{}), taken: &taken}
	s := serveWith(t, e, &gate)
	conn := dialRaw(t, s)
	_, err := conn.Write(frame(10))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return taken.Load() == 1 }, patience, time.Millisecond)
	gate.Shut()
	close(e.wait) // the handler answers
	_, err = conn.Write(frame(10))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, int64(1), taken.Load())
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	gate.Open()
	r := bufio.NewReader(conn)
	for range 2 {
		answered(t, r)
	}
	gate.Shut()
	s.Close() // a frozen one, too
}
