package wire

import (
	"context"
	"sync"
)

// Gate freezes a server, as a process is frozen that gets no processor time: who
// passes waits while it is shut. The zero value is open. Safe for concurrent use.
type Gate struct {
	mu struct {
		sync.Mutex
		shut chan struct{} // nil while open, closed when it opens
	}
}

// Shut makes everybody wait who passes from now on.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.shut == nil {
		g.mu.shut = make(chan struct{})
	}
}

// Open lets everybody pass.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.shut != nil {
		close(g.mu.shut)
		g.mu.shut = nil
	}
}

// Pass waits until the gate is open; false when ctx has ended.
func (g *Gate) Pass(ctx context.Context) bool {
	g.mu.Lock()
	shut := g.mu.shut
	g.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
