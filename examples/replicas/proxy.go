package main

import (
	"io"
	"net"
	"sync"
)

// proxy passes connections on, and can cut them all. It is safe for concurrent use.
type proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu struct {
		sync.Mutex
		conns map[net.Conn]bool
	}
}

func startProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to}
	p.mu.conns = make(map[net.Conn]bool)
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.mu.conns[client], p.mu.conns[server] = true, true
		p.mu.Unlock()
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			p.wg.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				p.drop(client, server)
			})
		}
	}
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.mu.conns, c)
	}
}

// cut breaks every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.conns {
		c.Close()
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.cut()
	p.wg.Wait()
}
