package prefetch

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// A hint is no access: not to memory that is nobody's, nor to what can only be read.
func TestHintsTouchNothing(t *testing.T) {
	Line(nil)
	Line(unsafe.Pointer(unsafe.StringData("only to be read")))
	Links(unsafe.Pointer(&[2]uintptr{}))
	Links(unsafe.Pointer(&[2]uintptr{8, 1 << 40}))
	element := [2]*int{new(int), new(int)}
	before := element
	Links(unsafe.Pointer(&element))
	assert.Equal(t, before, element)
	assert.Zero(t, *element[0]+*element[1])
}
