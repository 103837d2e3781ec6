package purgatory

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who has few keys does not pay for the memory of one who had many.
func TestKeysThatAreGivenBackAreForgotten(t *testing.T) {
	if RaceDetector {
		t.Skip("with it, a pool drops things at random")
	}
	// A sync.Pool gives back what was put on the same processor, and before the last two collections.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	p := newManual(t)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "key"
	}
	var many keySet[string]
	require.Len(t, many.fill(p, keys, nil), 1000)
	array := many.many
	many.release(p)
	var few keySet[string]
	waits := few.fill(p, keys[:5], nil)
	require.Same(t, array, few.many, "the memory is used again")
	require.Len(t, waits, 5)
	for _, w := range (*array)[5:cap(*array)] {
		require.Empty(t, w.Key)
	}
	(*array)[:6][5].Key = "not touched"
	few.release(p)
	assert.Equal(t, "not touched", (*array)[:6][5].Key, "release clears what was filled, and no more")
	assert.Empty(t, (*array)[:5][4].Key)
}
