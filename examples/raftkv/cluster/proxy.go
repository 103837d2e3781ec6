// Package cluster runs members as processes of their own, each data folder its own, and does to them what happens to servers:
// it kills them, freezes them, and cuts them off from each other.
package cluster

import (
	"net"
	"sync"
)

// proxy carries connections of one member to another. It can hold back what goes there, or what comes back, or both, as a
// network that drops packets does: connections stay open, and what was held back arrives when the network has healed.
type proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu struct {
		sync.Mutex
		conns  map[net.Conn]struct{}
		closed bool
	}
	there, back gate
}

func newProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to}
	p.mu.conns = make(map[net.Conn]struct{})
	p.there.init()
	p.back.init()
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.carry(c) })
	}
}

// carry carries one connection until either end closes it.
func (p *proxy) carry(from net.Conn) {
	defer from.Close()
	if !p.hold(from) {
		return
	}
	defer p.release(from)
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !p.hold(to) {
		return
	}
	defer p.release(to)
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

func (p *proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return false
	}
	p.mu.conns[c] = struct{}{}
	return true
}

func (p *proxy) release(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, c)
}

func (p *proxy) close() {
	p.mu.Lock()
	p.mu.closed = true
	for c := range p.mu.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.listener.Close()
	p.there.close()
	p.back.close()
	p.wg.Wait()
}

// gate lets pass, or holds back. The zero value has to be initialised.
type gate struct {
	mu     sync.Mutex
	change sync.Cond
	shut   bool
	closed bool
}

func (g *gate) init() { g.change.L = &g.mu }

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
