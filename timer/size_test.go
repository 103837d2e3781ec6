package timer

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are chosen for 64 bits")
	}
	assert.EqualValues(t, 48, unsafe.Sizeof(TaskEntry{}), "TaskEntry")
	assert.EqualValues(t, 64, unsafe.Sizeof(Handle{}), "Handle: a larger one falls into the next size class")

	var s shard
	const line = 64
	assert.Zero(t, unsafe.Sizeof(s)%line, "a shard of %d bytes shares a cache line with the next", unsafe.Sizeof(s))
	for n := 1; n <= maxShards; n *= 2 {
		m := newManual(t, WithShards(n))
		for i := range n {
			s := m.shard(i)
			begin := uintptr(unsafe.Pointer(s)) % line
			assert.True(t, begin == 0 || begin == 8, "a shard begins %d bytes behind a cache line", begin)

			tt := newTask(nil)
			tt.inShard(i)
			addIn(t, m, tt, 1)
			levels := s.mu.wheel.levels
			size, begin := uintptr(cap(levels))*unsafe.Sizeof(levels[0]), uintptr(unsafe.Pointer(&levels[0]))%line
			assert.Zero(t, size%line, "levels of %d bytes share a cache line with what follows them", size)
			assert.True(t, begin == 0 || begin == 8, "levels begin %d bytes behind a cache line", begin)
		}
	}
}
