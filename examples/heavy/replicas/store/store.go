// Package store keeps the state of the watch service in an engine that all replicas share.
package store

import (
	"context"

	"github.com/delayedop/purgatory/signals"
)

// Entry is a value with the revision that wrote it; 0: the key was never set.
type Entry struct {
	Value    []byte
	Revision int64
}

// Store is a map of keys to entries that other processes change too.
type Store interface {
	Put(ctx context.Context, key string, value []byte) (revision int64, err error)
	Get(ctx context.Context, key string) (Entry, error)
	// Revisions reads the revisions of at most a thousand keys at once.
	Revisions(ctx context.Context, keys []string) (map[string]int64, error)
	// Source hears what other processes change.
	Source() signals.Source[string]
	Close()
}
