package watchers

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

const line = 64 // bytes in a cache line

// What is written when an operation comes or goes lies in as few cache lines as can be.
func TestSizes(t *testing.T) {
	var l keyList[string]
	assert.EqualValues(t, 2*line, unsafe.Sizeof(l), "keyList: a size class, too")
	assert.EqualValues(t, line, unsafe.Offsetof(l.hash), "what every watch writes ends here")

	var s Shard[string]
	assert.EqualValues(t, 5*line, unsafe.Sizeof(s))
	mu := unsafe.Offsetof(s.mu)
	keys := mu + unsafe.Offsetof(s.mu.keys)
	for _, begin := range []uintptr{0, 8} { // where the allocator puts the first shard
		at := func(field uintptr) uintptr { return (begin + field) / line }
		own := at(mu)
		assert.Equal(t, own, at(unsafe.Offsetof(s.observer)), "with the lock: what all look at,")
		assert.Equal(t, own, at(mu+unsafe.Offsetof(s.mu.running)), "what is written for each operation,")
		assert.Equal(t, own, at(mu+unsafe.Offsetof(s.mu.watched)), "or for each key,")
		assert.Equal(t, own, at(keys), "and where to look it up")
		assert.Equal(t, own, at(keys+unsafe.Sizeof(s.mu.keys.buckets)-1))
		counts := mu + unsafe.Offsetof(s.mu.counts)
		assert.Equal(t, own+1, at(counts), "for each operation at home")
		assert.Equal(t, own+1, at(counts+unsafe.Sizeof(s.mu.counts)-1))
		assert.Equal(t, own+2, at(mu+unsafe.Offsetof(s.mu.spare)), "for one on several keys")
		assert.Zero(t, at(unsafe.Sizeof(s)-unsafe.Sizeof(s.index)-1)-at(mu+unsafe.Offsetof(s.mu.queue)), "the index, which nobody writes, may lie in the next shard's line")
	}
}

func TestWhereShardsBegin(t *testing.T) {
	for n := 1; n <= 1024; n *= 2 {
		shards := New(Config[string]{Shards: n}).shards
		begin := uintptr(unsafe.Pointer(&shards[0])) % line
		assert.True(t, begin == 0 || begin == 8, "%d shards begin %d bytes behind a cache line", n, begin)
	}
}
