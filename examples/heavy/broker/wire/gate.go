package wire

import (
	"context"
	"sync"
	"sync/atomic"
)

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
