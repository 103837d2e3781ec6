package timer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What is due in a shard runs, whichever word its ready bit is in; when all has run, no bit is set.
func TestWhatIsDueInAnyShardRuns(t *testing.T) {
	m := newManual(t, WithShards(maxShards))
	ran := map[int]int{}
	for i := range maxShards {
		for range 2 { // so that a shard may be left with more to do
			tt := newTask(func() { ran[i]++ })
			tt.inShard(i)
			addIn(t, m, tt, time.Millisecond)
		}
	}
	m.AdvanceClock(time.Millisecond)
	assert.Len(t, ran, maxShards)
	for i, n := range ran {
		assert.Equal(t, 2, n, "shard %d", i)
	}
	assert.False(t, m.anyReady())
}
