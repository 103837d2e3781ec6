package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLaterCommitCounts, whichever is heard of first: of two that wait, two goroutines may see the end at the same time.
func TestTheLaterCommitCounts(t *testing.T) {
	var o offsets
	o.load(0, nil)
	key := offsetKey{"g", "t", 0}
	o.store(0, 2, map[offsetKey]commit{key: {offset: 20}})
	o.store(0, 1, map[offsetKey]commit{key: {offset: 10}, {"g", "t", 1}: {offset: 11}})
	for partition, want := range []int64{20, 11} {
		c, ok := o.of(0, offsetKey{"g", "t", int32(partition)})
		require.True(t, ok)
		require.Equal(t, want, c.offset)
	}
	o.store(0, 3, map[offsetKey]commit{key: {offset: 5}})
	c, _ := o.of(0, key)
	require.Equal(t, int64(5), c.offset, "a group may go back")
}
