package wire

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

const (
	maxConns    = 1024
	maxInFlight = 512 // unanswered requests of one connection; one more ends it
)

// Limits are what a server puts up with. Zero values get defaults.
type Limits struct {
	Idle     time.Duration // between two requests; default 10 min
	Transfer time.Duration // for the whole of one frame, either way; default 30 s
	Gate     *Gate         // freezes the server; nil for none
	Logger   *slog.Logger  // nil for none
}

func (l Limits) withDefaults() Limits {
	l.Idle = cmp.Or(l.Idle, 10*time.Minute)
	l.Transfer = cmp.Or(l.Transfer, 30*time.Second)
	if l.Gate == nil {
		l.Gate = &Gate{}
	}
	if l.Logger == nil {
		l.Logger = slog.New(slog.DiscardHandler)
	}
	return l
}

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
	limits   Limits

	mu struct {
		sync.Mutex
		draining bool
		full     bool // and it was logged
		conns    map[*Conn]struct{}
	}
}

// Serve answers what comes in on the listener until it is closed.
func Serve(l net.Listener, apis Versions, h Handler, limits Limits) *Server {
	s := &Server{listener: l, handler: h, apis: apis, limits: limits.withDefaults()}
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
		c := &Conn{ID: s.lastID.Add(1), tcp: tcp, memory: semaphore.NewWeighted(maxFrame), slots: make(chan slot, maxInFlight)}
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
	full := len(s.mu.conns) == maxConns
	if full && !s.mu.full {
		s.limits.Logger.Warn("connections refused: the table is full", "maximum", maxConns)
	}
	if s.mu.full = full; full || s.mu.draining {
		return false
	}
	s.mu.conns[c] = struct{}{}
	return true
}
