package timer

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

func TestSizes(t *testing.T) {
	assert.EqualValues(t, 48, unsafe.Sizeof(TaskEntry{}), "TaskEntry")
	assert.EqualValues(t, 64, unsafe.Sizeof(Handle{}), "Handle: a larger one falls into the next size class")
	assert.Zero(t, unsafe.Sizeof(shard{})%64, "a shard of %d bytes shares a cache line with the next", unsafe.Sizeof(shard{}))
}
