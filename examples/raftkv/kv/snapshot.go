package kv

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
)

// A snapshot is a header and one record for each key; numbers are big-endian.
//
//	magic "raftkv1\n" │ applied u64 │ keys u64 │ { revision u64 │ len(key) u32 │ len(value) u32 │ key │ value } …
//
// The engine's snapshot store keeps a checksum of the whole.
const snapshotMagic = "raftkv1\n"

// maxPart bounds the length of a key or value that a snapshot may claim, so that a damaged one cannot exhaust memory.
const maxPart = 1 << 28

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
	head := []byte(snapshotMagic)
	head = binary.BigEndian.AppendUint64(head, s.applied)
	head = binary.BigEndian.AppendUint64(head, uint64(len(s.entries)))
	b.Write(head) //nolint:errcheck // bufio keeps the first error, and Flush returns it
	for key, e := range s.entries {
		head = binary.BigEndian.AppendUint64(head[:0], e.Revision)
		head = binary.BigEndian.AppendUint32(head, uint32(len(key)))
		head = binary.BigEndian.AppendUint32(head, uint32(len(e.Value)))
		b.Write(head)      //nolint:errcheck // see above
		b.WriteString(key) //nolint:errcheck // see above
		b.Write(e.Value)   //nolint:errcheck // see above
	}
	return b.Flush()
}

// Restore replaces the store's content by the snapshot that r reads, and returns the keys whose revision has grown. The store
// stays as it is if the snapshot is damaged.
func (s *Store) Restore(r io.Reader) (changed []Write, applied uint64, err error) {
	entries, applied, err := readSnapshot(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range entries {
		if e.Revision > s.mu.entries[key].Revision {
			changed = append(changed, Write{key, e})
		}
	}
	s.mu.entries = entries
	s.applied.Store(applied)
	return changed, applied, nil
}

func readSnapshot(r io.Reader) (entries map[string]Entry, applied uint64, err error) {
	var head [len(snapshotMagic) + 16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, 0, fmt.Errorf("%w: header: %w", errSnapshot, err)
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, 0, fmt.Errorf("%w: it begins with %q", errSnapshot, head[:len(snapshotMagic)])
	}
	applied = binary.BigEndian.Uint64(head[len(snapshotMagic):])
	keys := binary.BigEndian.Uint64(head[len(snapshotMagic)+8:])
	entries = make(map[string]Entry)
	for i := range keys {
		var record [16]byte
		if _, err := io.ReadFull(r, record[:]); err != nil {
			return nil, 0, fmt.Errorf("%w: record %d of %d: %w", errSnapshot, i, keys, err)
		}
		keyLen, valueLen := binary.BigEndian.Uint32(record[8:]), binary.BigEndian.Uint32(record[12:])
		if keyLen > maxPart || valueLen > maxPart {
			return nil, 0, fmt.Errorf("%w: record %d of %d claims %d and %d bytes", errSnapshot, i, keys, keyLen, valueLen)
		}
		both := make([]byte, keyLen+valueLen)
		if _, err := io.ReadFull(r, both); err != nil {
			return nil, 0, fmt.Errorf("%w: record %d of %d: %w", errSnapshot, i, keys, err)
		}
		entries[string(both[:keyLen])] = Entry{Value: both[keyLen:], Revision: binary.BigEndian.Uint64(record[:])}
	}
	return entries, applied, nil
}
