package node

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// sniffTimeout is how long a connection may take to say its first byte.
const sniffTimeout = 10 * time.Second

// mux accepts connections for the engine and for HTTP on one address. The first byte of a connection tells them apart: the
// engine begins every request with the number of its kind, HTTP with a letter. So a member is one address, a proxy in front of
// a node cuts off both, and the engine's configuration is the only list of members.
type mux struct {
	listener net.Listener
	address  string // as in the engine's configuration
	routes   map[string]string

	engine, web chan net.Conn // by the first byte
	closed      chan struct{}
	once        sync.Once
	wg          sync.WaitGroup

	mu struct {
		sync.Mutex
		conns map[net.Conn]struct{} // that are open; nil once closed
	}
}

func listen(address string, routes map[string]string) (*mux, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &mux{
		listener: l, address: address, routes: routes,
		engine: make(chan net.Conn), web: make(chan net.Conn), closed: make(chan struct{}),
	}
	m.mu.conns = make(map[net.Conn]struct{})
	m.wg.Go(m.accept)
	return m, nil
}

func (m *mux) accept() {
	for {
		c, err := m.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, for one: that passes
			select {
			case <-time.After(50 * time.Millisecond):
			case <-m.closed:
				return
			}
			continue
		}
		m.wg.Go(func() { m.sniff(c) })
	}
}

func (m *mux) sniff(c net.Conn) {
	if !m.hold(c) {
		c.Close()
		return
	}
	p := &prefixed{Conn: c, mux: m}
	c.SetReadDeadline(time.Now().Add(sniffTimeout)) //nolint:errcheck // the read reports it
	if _, err := c.Read(p.first[:]); err != nil {
		p.Close()
		return
	}
	c.SetReadDeadline(time.Time{}) //nolint:errcheck // the next read reports it
	to := m.web
	if p.first[0] < ' ' {
		to = m.engine
	}
	select {
	case to <- p:
	case <-m.closed:
		p.Close()
	}
}

func (m *mux) hold(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.conns == nil {
		return false
	}
	m.mu.conns[c] = struct{}{}
	return true
}

func (m *mux) release(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.conns, c)
}

// Close stops accepting, closes all connections, those that the engine has accepted too, which it leaves open itself, and returns
// when nobody accepts any more.
func (m *mux) Close() error {
	m.once.Do(func() {
		close(m.closed)
		m.listener.Close()
		m.mu.Lock()
		for c := range m.mu.conns {
			c.Close()
		}
		m.mu.conns = nil
		m.mu.Unlock()
	})
	m.wg.Wait()
	return nil
}

// route returns where to dial for address.
func (m *mux) route(address string) string {
	if to, ok := m.routes[address]; ok {
		return to
	}
	return address
}

// dial connects to a member.
func (m *mux) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", m.route(address))
}

// side is one of the two listeners of a mux, and the engine's raft.StreamLayer.
type side struct {
	*mux
	conns chan net.Conn
}

var _ raft.StreamLayer = side{}

// Accept returns the next connection of this side.
func (s side) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// web is where HTTP connections arrive. Closing it leaves the engine's side alone.
type web struct {
	side
	stopped chan struct{}
	stop    func()
}

func newWeb(m *mux) *web {
	w := &web{side: side{m, m.web}, stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.stopped) })
	return w
}

// Accept returns the next HTTP connection.
func (w *web) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.stopped:
		return nil, net.ErrClosed
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (w *web) Close() error {
	w.stop()
	return nil
}

// Addr returns the address that other members know.
func (s side) Addr() net.Addr { return memberAddr(s.address) }

// Dial connects to the engine of another member.
func (s side) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dial(ctx, string(address))
}

type memberAddr string

func (memberAddr) Network() string  { return "tcp" }
func (a memberAddr) String() string { return string(a) }

// prefixed is a connection whose first byte has been read.
type prefixed struct {
	net.Conn
	mux   *mux
	first [1]byte
	given bool
}

func (p *prefixed) Read(b []byte) (int, error) {
	if p.given || len(b) == 0 {
		return p.Conn.Read(b)
	}
	p.given = true
	b[0] = p.first[0]
	return 1, nil
}

// Close closes the connection.
func (p *prefixed) Close() error {
	p.mux.release(p.Conn)
	return p.Conn.Close()
}
