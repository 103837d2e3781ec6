package wire

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	maxConns    = 1024
	maxLarge    = 16               // frames beyond largeFrame, of all connections together
	maxInFlight = 16               // unanswered requests of one connection; then it is not read
	idle        = 10 * time.Minute // between two requests
	transfer    = 30 * time.Second // for one frame, either way
)

// Handler answers requests.
type Handler interface {
	// Handle answers req by calling reply exactly once, now or later, from
	// any goroutine; nil sends nothing, as a produce with acks=0 wants it. The
	// connection's next request waits for Handle to return, not for reply.
	Handle(c *Conn, req kmsg.Request, reply func(kmsg.Response))
	// Gone is called once, when the peer has left: nobody will read the
	// answers that are still waited for.
	Gone(c *Conn)
}

// Server serves a listener. Safe for concurrent use.
type Server struct {
	listener net.Listener
	handler  Handler
	apis     Versions
	wg       sync.WaitGroup
	lastID   atomic.Uint64
	large    chan struct{} // one token per large frame in memory

	mu struct {
		sync.Mutex
		draining bool
		conns    map[*Conn]struct{}
	}
}

// Serve answers what comes in on the listener until it is closed.
func Serve(l net.Listener, apis Versions, h Handler) *Server {
	s := &Server{listener: l, handler: h, apis: apis, large: make(chan struct{}, maxLarge)}
	s.mu.conns = make(map[*Conn]struct{})
	s.wg.Go(s.accept)
	return s
}

// Addr is where the server listens.
func (s *Server) Addr() *net.TCPAddr { return s.listener.Addr().(*net.TCPAddr) }

// Conns is the number of open connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}

// Drain takes no more requests, sends the answers to those already taken,
// which the caller has to see to, and returns when the last is sent.
func (s *Server) Drain() {
	s.end(func(c *Conn) { _ = c.tcp.SetReadDeadline(time.Unix(1, 0)) })
}

// Close drops every connection in the middle of whatever it does.
func (s *Server) Close() {
	s.end(func(c *Conn) { c.Close() })
}

func (s *Server) end(each func(*Conn)) {
	_ = s.listener.Close()
	s.mu.Lock()
	s.mu.draining = true
	for c := range s.mu.conns {
		each(c)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	for {
		tcp, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &Conn{ID: s.lastID.Add(1), tcp: tcp, slots: make(chan slot, maxInFlight)}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		if !s.add(c) {
			c.Close()
			continue
		}
		s.wg.Go(func() { s.read(c) })
		s.wg.Go(func() { s.write(c) })
	}
}

func (s *Server) add(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.draining || len(s.mu.conns) == maxConns {
		return false
	}
	s.mu.conns[c] = struct{}{}
	return true
}

// Conn is one client's connection. Its answers leave in the order of its
// requests, whatever the order in which they were found.
type Conn struct {
	ID     uint64
	tcp    net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan slot
}

// slot is the place of one answer in the order of a connection's answers.
type slot struct {
	correlation int32
	resp        chan kmsg.Response
}

// Close ends the connection, whatever it is doing.
func (c *Conn) Close() {
	c.cancel()
	_ = c.tcp.Close()
}

func (s *Server) read(c *Conn) {
	s.requests(c)
	close(c.slots)
	s.mu.Lock()
	draining := s.mu.draining
	s.mu.Unlock()
	if !draining {
		c.Close()
	}
	s.handler.Gone(c)
}

// requests takes requests until the connection breaks its rules or ends. It
// keeps reading while answers are waited for: that is how a peer that vanishes
// in the middle of its wait is noticed.
func (s *Server) requests(c *Conn) {
	r := bufio.NewReader(c.tcp)
	for s.request(c, r) == nil {
	}
}

func (s *Server) request(c *Conn, r *bufio.Reader) error {
	s.allow(c, idle)
	size, err := peekSize(r)
	if err != nil {
		return err
	}
	if size > largeFrame && size <= maxRequestFrame {
		select {
		case s.large <- struct{}{}:
			defer func() { <-s.large }()
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	s.allow(c, transfer)
	frame, err := readFrame(r, maxRequestFrame)
	if err != nil {
		return err
	}
	req, err := parseRequest(frame, s.apis)
	if err != nil {
		return err
	}
	place := slot{correlation: req.correlation, resp: make(chan kmsg.Response, 1)}
	select {
	case c.slots <- place:
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	if req.unknownApiVersions {
		place.resp <- answerUnknownApiVersions(s.apis)
		return nil
	}
	s.handler.Handle(c, req.body, func(resp kmsg.Response) { place.resp <- resp })
	return nil
}

// allow gives the peer until d from now for what it has to send. It leaves the
// deadline alone by which Drain ends the reading.
func (s *Server) allow(c *Conn, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.draining {
		_ = c.tcp.SetReadDeadline(time.Now().Add(d))
	}
}

func (s *Server) write(c *Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.Unlock()
	}()
	var frame []byte
	for place := range c.slots {
		select {
		case resp := <-place.resp:
			if resp == nil {
				continue
			}
			frame = appendResponse(frame[:0], place.correlation, resp)
		case <-c.ctx.Done():
			return
		}
		_ = c.tcp.SetWriteDeadline(time.Now().Add(transfer))
		if _, err := c.tcp.Write(frame); err != nil {
			return
		}
		if cap(frame) > 1<<20 {
			frame = nil // one large fetch must not keep its buffer with every idle connection
		}
	}
}
