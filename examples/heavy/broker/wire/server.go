package wire

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

const maxInFlight = 512 // unanswered requests of one connection; one more ends it

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

var lastID atomic.Uint64 // of the connections of all servers

// Server serves a listener. Safe for concurrent use.
type Server struct {
	listener net.Listener
	handler  Handler
	apis     Versions
	gate     *Gate
	patience time.Duration
	wg       sync.WaitGroup

	mu struct {
		sync.Mutex
		draining bool
		conns    map[*Conn]struct{}
	}
}

// Serve answers what comes in on the listener until it is closed. The gate freezes the
// server. A connection that has begun a frame and goes on with it too slowly for patience
// is closed.
func Serve(l net.Listener, apis Versions, h Handler, gate *Gate, patience time.Duration) *Server {
	s := &Server{listener: l, handler: h, apis: apis, gate: gate, patience: patience}
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
// which the caller has to see to, and returns when the last is sent: a client that
// does not read has ten seconds.
func (s *Server) Drain() {
	s.end(func(c *Conn) {
		_ = c.tcp.SetReadDeadline(time.Unix(1, 0))
		_ = c.tcp.SetWriteDeadline(time.Now().Add(10 * time.Second))
	})
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
	s.gate.Open() // also a frozen server ends
	s.wg.Wait()
}

func (s *Server) accept() {
	for {
		tcp, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &Conn{ID: lastID.Add(1), tcp: tcp, memory: semaphore.NewWeighted(maxFrame), slots: make(chan slot, maxInFlight)}
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
	if !s.mu.draining {
		s.mu.conns[c] = struct{}{}
	}
	return !s.mu.draining
}

// Gate freezes a server, as a process is frozen that gets no processor time: who
// passes waits while it is shut. The zero value is open. Safe for concurrent use.
type Gate struct {
	mu   sync.RWMutex // locked for writing while it is shut
	shut atomic.Bool
}

// Shut makes everybody wait who passes from now on.
func (g *Gate) Shut() {
	if g.shut.CompareAndSwap(false, true) {
		g.mu.Lock()
	}
}

// Open lets everybody pass.
func (g *Gate) Open() {
	if g.shut.CompareAndSwap(true, false) {
		g.mu.Unlock()
	}
}

// Pass waits until the gate is open; false when ctx has ended.
func (g *Gate) Pass(ctx context.Context) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return ctx.Err() == nil
}
