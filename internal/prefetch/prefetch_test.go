package prefetch

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The address of a hint may be unmapped or read-only, and a hint changes no memory.
func TestPrefetchChangesNoMemory(t *testing.T) {
	Line(nil)
	Line(unsafe.Pointer(unsafe.StringData("only to be read")))
	Neighbours(unsafe.Pointer(&[2]uintptr{}))
	Neighbours(unsafe.Pointer(&[2]uintptr{8, ^uintptr(7)}))
	element := [2]*int{new(int), new(int)}
	before := element
	Neighbours(unsafe.Pointer(&element))
	assert.Equal(t, before, element)
	assert.Zero(t, *element[0]+*element[1])
}
