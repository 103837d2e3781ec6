package machine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// nest calls f with this many frames added to the stack.
//
//go:noinline
func nest(frames int, f func()) {
	if frames == 0 {
		f()
		return
	}
	nest(frames-1, f)
}

func TestADeepStackIsRecognised(t *testing.T) {
	frames := func() int { // of its caller
		var pcs [20 * DeepStack]uintptr
		return runtime.Callers(2, pcs[:])
	}
	base := 0
	nest(0, func() { base = frames() })
	for _, want := range []int{base, DeepStack - 1, DeepStack, DeepStack + 1, 10 * DeepStack} {
		nest(want-base, func() {
			assert.Equal(t, want, frames())
			assert.Equal(t, want >= DeepStack, Deep(), "%d frames", want)
		})
	}
	assert.False(t, Deep(), "again")
	assert.Zero(t, testing.AllocsPerRun(100, func() { Deep() }))
}
