package machine

import (
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
	done := make(chan struct{})
	go func() { // the stack of a goroutine of its own
		defer close(done)
		assert.False(t, Deep())
		nest(DeepStack-50, func() { assert.False(t, Deep(), "below") })
		nest(DeepStack, func() { assert.True(t, Deep(), "above") })
		nest(10*DeepStack, func() { assert.True(t, Deep(), "far above") })
		assert.False(t, Deep(), "again")
	}()
	<-done
	assert.Zero(t, testing.AllocsPerRun(100, func() { Deep() }))
}
