package watchers

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

const line = 64 // bytes in a cache line

// What a registration and an end both write is as much as a cache line, see Shard.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("lines are laid out for 64 bits")
	}
	assert.LessOrEqual(t, int(unsafe.Sizeof(keyList[string]{})), 160, "a size class")
	assert.EqualValues(t, line, unsafe.Offsetof(keyList[string]{}.shard), "what every watch writes ends here")

	var s shard[string]
	keys := unsafe.Offsetof(s.mu) + unsafe.Offsetof(s.mu.keys)
	last := keys + unsafe.Offsetof(s.mu.keys.buckets) + 2*unsafe.Sizeof(uintptr(0)) // the length of buckets
	assert.LessOrEqual(t, int(last), line, "for each operation and each key: one line")
}
