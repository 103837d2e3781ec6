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
	at := func(field uintptr) uintptr { return (unsafe.Offsetof(s.mu) + field) / line }
	assert.Zero(t, unsafe.Sizeof(s)%line, "a shard of %d bytes shares a cache line with the next", unsafe.Sizeof(s))
	assert.Zero(t, at(unsafe.Offsetof(s.mu.watched)), "with the lock: what is written for each key")
	assert.Zero(t, at(unsafe.Offsetof(s.mu.keys)+unsafe.Sizeof(s.mu.keys.buckets)-1), "and where to look it up")
	assert.EqualValues(t, 1, at(unsafe.Offsetof(s.mu.counts)), "for each operation")
	assert.EqualValues(t, 1, at(unsafe.Offsetof(s.mu.counts)+unsafe.Sizeof(s.mu.counts)-1))
	assert.EqualValues(t, 2, at(unsafe.Offsetof(s.mu.spare)), "for one on several keys")
}
