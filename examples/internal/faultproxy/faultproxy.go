// Package faultproxy carries the TCP connections between the processes of an example, and does to them what networks do: it cuts
// them, or holds back what goes one way or the other.
package faultproxy

import (
	"net"
	"sync"
)

// Proxy passes connections on to one address. It is safe for concurrent use.
type Proxy struct {
	listener    net.Listener
	to          string
	wg          sync.WaitGroup
	there, back gate

	mu struct {
		sync.Mutex
		conns map[net.Conn]struct{} // nil once closed
	}
}

// Start starts a proxy in front of the address to, on a loopback port of its own.
func Start(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, to: to}
	p.mu.conns = make(map[net.Conn]struct{})
	p.there.change.L, p.back.change.L = &p.there.mu, &p.back.mu
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes every connection. Those that come later are passed on.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.conns {
		c.Close()
	}
}

// Hold holds back what goes there, or what comes back, or both, or neither, as a network that drops packets does: connections
// stay open, and what was held back arrives when it is let through.
func (p *Proxy) Hold(there, back bool) {
	p.there.set(there)
	p.back.set(back)
}

// Close closes the listener and every connection, and returns when all goroutines of the proxy have ended.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.mu.conns {
		c.Close()
	}
	p.mu.conns = nil // a connection that is being made finds it so
	p.mu.Unlock()
	p.there.close()
	p.back.close()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.carry(c) })
	}
}

// carry carries one connection until either end closes it.
func (p *Proxy) carry(from net.Conn) {
	defer from.Close()
	if !p.enter(from) {
		return
	}
	defer p.leave(from)
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !p.enter(to) {
		return
	}
	defer p.leave(to)
	var wg sync.WaitGroup
	wg.Go(func() { pump(to, from, &p.there) })
	wg.Go(func() { pump(from, to, &p.back) })
	wg.Wait()
}

// pump copies until an end closes, and then closes both.
func pump(to, from net.Conn, g *gate) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !g.pass() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.conns == nil {
		return false
	}
	p.mu.conns[c] = struct{}{}
	return true
}

func (p *Proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, c)
}

// gate lets pass, or holds back.
type gate struct {
	mu           sync.Mutex
	change       sync.Cond
	shut, closed bool
}

// pass waits until the gate is open, and reports whether it was not closed for good.
func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut && !g.closed {
		g.change.Wait()
	}
	return !g.closed
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	g.change.Broadcast()
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.change.Broadcast()
}
