// Package kv is the state machine: a map from keys to values, with the revision (the index of the log entry) of each, and the
// index up to which the log has been applied. It knows neither the engine nor anybody who waits.
package kv

import (
	"sync"
	"sync/atomic"
)

// Entry is what a key has.
type Entry struct {
	Value    []byte
	Revision uint64
}

// Store is safe for concurrent use. Values are shared, and must not be changed.
type Store struct {
	mu struct {
		sync.RWMutex
		entries map[string]Entry
	}
	// applied is written under mu, after the entries that it speaks of: who has read it sees them.
	applied atomic.Uint64
}

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.mu.entries = make(map[string]Entry)
	return s
}

// Write is a change of one key.
type Write struct {
	Key   string
	Entry Entry
}

// Apply makes all writes of a batch visible at once, together with the index of the batch's last log entry.
func (s *Store) Apply(writes []Write, applied uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range writes {
		s.mu.entries[writes[i].Key] = writes[i].Entry
	}
	s.applied.Store(applied)
}

// Get returns what key has.
func (s *Store) Get(key string) (Entry, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.mu.entries[key]
	return e, ok
}

// Revision returns the revision of key, 0 if it was never written.
func (s *Store) Revision(key string) uint64 {
	e, _ := s.Get(key)
	return e.Revision
}

// Applied returns the index up to which the log has been applied.
func (s *Store) Applied() uint64 { return s.applied.Load() }

// Len returns the number of keys.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.mu.entries)
}
