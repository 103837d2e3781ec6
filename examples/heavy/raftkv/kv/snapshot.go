package kv

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
)

// A snapshot is a stream of gob values: a header, and a Write for each key. The engine's snapshot store keeps a checksum of the
// whole.
type header struct {
	Format  string // snapshotFormat
	Applied uint64
	Keys    int
}

const snapshotFormat = "raftkv2"

var errSnapshot = errors.New("kv: damaged snapshot")

// Snapshot is the store at one moment.
type Snapshot struct {
	entries map[string]Entry
	applied uint64
}

// Snapshot copies the map, not the values, which nobody changes. Writers wait as long as that takes.
func (s *Store) Snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Snapshot{entries: maps.Clone(s.mu.entries), applied: s.applied.Load()}
}

// Write writes the snapshot to w.
func (s *Snapshot) Write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	e := gob.NewEncoder(b)
	err := e.Encode(header{snapshotFormat, s.applied, len(s.entries)})
	for key, entry := range s.entries {
		if err != nil {
			return err
		}
		err = e.Encode(Write{key, entry})
	}
	return errors.Join(err, b.Flush())
}

// Restore replaces the store's content by the snapshot that r reads, and returns the keys whose revision has grown. The store
// stays as it is if the snapshot is damaged.
func (s *Store) Restore(r io.Reader) (changed []Write, applied uint64, err error) {
	d := gob.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	var h header
	if err := d.Decode(&h); err != nil || h.Format != snapshotFormat {
		return nil, 0, fmt.Errorf("%w: header of format %q: %w", errSnapshot, h.Format, err)
	}
	entries := make(map[string]Entry)
	for i := range h.Keys {
		var w Write
		if err := d.Decode(&w); err != nil {
			return nil, 0, fmt.Errorf("%w: record %d of %d: %w", errSnapshot, i, h.Keys, err)
		}
		entries[w.Key] = w.Entry
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range entries {
		if e.Revision > s.mu.entries[key].Revision {
			changed = append(changed, Write{key, e})
		}
	}
	s.mu.entries = entries
	s.applied.Store(h.Applied)
	return changed, h.Applied, nil
}
