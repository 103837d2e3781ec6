package service

import (
	"sync"

	"github.com/delayedop/purgatory/signals"
)

// known is how far the keys that somebody waits for have come, as far as this process
// knows. It spares a wait the read that would find nothing new. It is safe for concurrent
// use.
type known struct {
	mu   sync.Mutex
	keys map[string]*progress
}

type progress struct {
	revision int64
	waits    int
}

// enter says that a wait for key begins.
func (k *known) enter(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.keys[key]
	if p == nil {
		p = &progress{}
		k.keys[key] = p
	}
	p.waits++
}

// leave says that it has ended.
func (k *known) leave(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.keys[key]
	if p.waits--; p.waits == 0 {
		delete(k.keys, key)
	}
}

// rise says that key has come as far as revision.
func (k *known) rise(key string, revision int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.keys[key]; p != nil {
		p.revision = max(p.revision, revision)
	}
}

// beyond reports whether key has come further than revision.
func (k *known) beyond(key string, revision int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.keys[key]
	return p != nil && p.revision > revision
}

// listening is a sink that notes what it hears in known first.
type listening struct {
	signals.Sink[string]
	known *known
}

func (l listening) Changed(key string, position int64) {
	l.known.rise(key, position)
	l.Sink.Changed(key, position)
}
