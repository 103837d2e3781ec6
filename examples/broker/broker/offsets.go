package broker

import (
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/batch"
)

// offsets are the committed offsets of the groups that this broker
// coordinates, by partition of the offsets topic. The log is the truth; this is
// what it says.
type offsets struct {
	mu struct {
		sync.Mutex
		loaded map[int32]map[offsetKey]commit
	}
}

type offsetKey struct {
	group, topic string
	partition    int32
}

type commit struct {
	end         int64 // of its batch in the log
	offset      int64
	leaderEpoch int32
	metadata    string
}

func (o *offsets) has(n int32) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.loaded[n] != nil
}

func (o *offsets) drop(n int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.loaded, n)
}

// load takes a partition's offsets from its log, in which later commits stand
// behind earlier ones.
func (o *offsets) load(n int32, batches []batch.Batch) {
	entries := make(map[offsetKey]commit)
	for _, b := range batches {
		for _, r := range b.Records() {
			key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
			if key.ReadFrom(r.Key) == nil && value.ReadFrom(r.Value) == nil {
				entries[offsetKey{key.Group, key.Topic, key.Partition}] = commit{b.End(), value.Offset, value.LeaderEpoch, value.Metadata}
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.loaded == nil {
		o.mu.loaded = make(map[int32]map[offsetKey]commit)
	}
	o.mu.loaded[n] = entries
}

// store remembers what has been replicated, up to an end of the log. Two commits may
// come in either order; what stands later in the log counts.
func (o *offsets) store(n int32, end int64, entries map[offsetKey]commit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	loaded := o.mu.loaded[n]
	if loaded == nil {
		return // it has moved; the log went with it
	}
	for key, c := range entries {
		if c.end = end; loaded[key].end <= end {
			loaded[key] = c
		}
	}
}

func (o *offsets) of(n int32, key offsetKey) (commit, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.mu.loaded[n][key]
	return c, ok
}

// topics are all partitions for which a group has committed, by topic.
func (o *offsets) topics(n int32, group string) map[string][]int32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string][]int32)
	for key := range o.mu.loaded[n] {
		if key.group == group {
			all[key.topic] = append(all[key.topic], key.partition)
		}
	}
	for _, partitions := range all {
		slices.Sort(partitions)
	}
	return all
}

// record is a commit as it stands in the log.
func (c commit) record(key offsetKey, millis int64) batch.Record {
	k, v := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
	k.Version, k.Group, k.Topic, k.Partition = 1, key.group, key.topic, key.partition
	v.Version, v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp = 3, c.offset, c.leaderEpoch, c.metadata, millis
	return batch.Record{Key: k.AppendTo(nil), Value: v.AppendTo(nil)}
}

// groups are all that have committed here.
func (o *offsets) groups() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]bool)
	for _, entries := range o.mu.loaded {
		for key := range entries {
			all[key.group] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
