package watchers

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

const line = 64 // bytes in a cache line

// The fields that are written together lie in one cache line each, see Shard.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("lines are laid out for 64 bits")
	}
	var l keyList[string]
	assert.EqualValues(t, 2*line, unsafe.Sizeof(l), "keyList: a size class, too")
	assert.EqualValues(t, line, unsafe.Offsetof(l.hash), "what every watch writes ends here")

	var s Shard[string]
	assert.EqualValues(t, 5*line, unsafe.Sizeof(s))
	mu := unsafe.Offsetof(s.mu)
	for _, begin := range []uintptr{0, 8} { // where the allocator puts the first shard
		lineOf := func(what string, offsets ...uintptr) uintptr { // the line in which all of offsets are
			at := (begin + offsets[0]) / line
			for _, offset := range offsets {
				assert.Equal(t, at, (begin+offset)/line, "%s, %d bytes from the beginning", what, offset)
			}
			return at
		}
		keys := mu + unsafe.Offsetof(s.mu.keys)
		buckets := keys + unsafe.Offsetof(s.mu.keys.buckets)
		counts := mu + unsafe.Offsetof(s.mu.counts)
		spare := mu + unsafe.Offsetof(s.mu.spare)
		signals := mu + unsafe.Offsetof(s.mu.signals)
		stale := unsafe.Offsetof(s.stale)
		lines := []uintptr{
			lineOf("for each operation and each key",
				mu+unsafe.Offsetof(s.mu.Mutex), mu+unsafe.Offsetof(s.mu.watched), mu+unsafe.Offsetof(s.mu.accepted),
				keys+unsafe.Offsetof(s.mu.keys.free), keys+unsafe.Offsetof(s.mu.keys.nfree), keys+unsafe.Offsetof(s.mu.keys.len),
				buckets, buckets+unsafe.Sizeof(uintptr(0))), // the length of buckets
			lineOf("for who ends operations", unsafe.Offsetof(s.ownGate), counts, counts+unsafe.Sizeof(s.mu.counts)-1),
			lineOf("for operations on several keys", spare, spare+55),
			lineOf("for checks and signals", signals, signals+unsafe.Sizeof(s.mu.signals)-1, unsafe.Offsetof(s.tries), unsafe.Offsetof(s.wasted), unsafe.Offsetof(s.wasted)+unsafe.Sizeof(s.wasted)-1),
			// Each unlock reads left, which is rarely written. Fields all and index are never written, so
			// they may lie in the line of the next shard.
			lineOf("what is read", unsafe.Offsetof(s.observer), unsafe.Offsetof(s.gate), unsafe.Offsetof(s.hasStale), stale, stale+unsafe.Sizeof(s.stale)-1),
		}
		for i, at := range lines {
			for _, other := range lines[:i] {
				assert.NotEqual(t, other, at, "%d", i)
			}
		}
	}
}

func TestShardsBeginOnACacheLine(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("lines are laid out for 64 bits")
	}
	w := New(Config[string]{Kick: func() {}, Shards: 1024})
	for i := range w.slots {
		begin := uintptr(unsafe.Pointer(w.Shard(uint64(i)))) % line
		assert.True(t, begin == 0 || begin == 8, "it begins %d bytes behind a cache line", begin)
	}
}
