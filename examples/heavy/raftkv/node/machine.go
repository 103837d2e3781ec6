package node

import (
	"io"

	"github.com/hashicorp/raft"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
)

// machine is the node as the engine sees it: a state machine that is given committed entries. The engine calls it on one
// goroutine, the apply loop.
type machine Node

var _ raft.BatchingFSM = (*machine)(nil)

// ApplyBatch applies committed entries, and then tells those who wait, once.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	n := (*Node)(m)
	writes := make([]kv.Write, 0, len(logs))
	var own []applied
	for _, l := range logs {
		if l.Type != raft.LogCommand { // a change of members: it has an index, and nothing for the store
			continue
		}
		c, err := kv.Decode(l.Data)
		if err != nil { // every node skips it alike
			n.cfg.Logger.Error("entry skipped", "index", l.Index, "error", err)
			continue
		}
		if !c.Begin {
			writes = append(writes, kv.Write{Key: c.Key, Entry: kv.Entry{Value: c.Value, Revision: l.Index}})
		}
		if c.Origin == n.origin {
			own = append(own, applied{seq: c.Seq, index: l.Index, beginOf: beginTerm(c, l)})
		}
	}
	last := logs[len(logs)-1].Index
	n.store.Apply(writes, last)
	n.settle(own)
	n.positions.SignalUpTo(lineApplied, int64(last))
	for i := range writes {
		n.watches.SignalUpTo(writes[i].Key, int64(writes[i].Entry.Revision))
	}
	return make([]any, len(logs))
}

func beginTerm(c kv.Command, l *raft.Log) uint64 {
	if c.Begin {
		return l.Term
	}
	return 0
}

// Apply is ApplyBatch for one entry.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// Restore replaces the store by a snapshot. It may jump over any number of positions: all who wait below are told.
func (m *machine) Restore(r io.ReadCloser) error {
	n := (*Node)(m)
	defer r.Close()
	changed, last, err := n.store.Restore(r)
	if err != nil {
		return err
	}
	n.restored.Add(1)
	n.positions.SignalUpTo(lineApplied, int64(last))
	for i := range changed {
		n.watches.SignalUpTo(changed[i].Key, int64(changed[i].Entry.Revision))
	}
	return nil
}

// Snapshot returns the store as it is; it is written while the apply loop goes on.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	return snapshot{(*Node)(m).store.Snapshot()}, nil
}

type snapshot struct{ *kv.Snapshot }

// Persist writes the snapshot.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.Write(sink); err != nil {
		sink.Cancel() //nolint:errcheck // the first error is the one to report
		return err
	}
	return sink.Close()
}

// Release has nothing to do.
func (s snapshot) Release() {}
