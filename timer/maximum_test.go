package timer

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// While AddAt refuses an entry because it is scheduled already, another entry is not refused
// with ErrFull if there is room for it.
func TestARefusedEntryTakesNoPlace(t *testing.T) {
	m := newManual(t, WithShards(4), WithMaxPending(2))
	scheduled, neighbour := newTask(nil), newTask(nil)
	scheduled.inShard(0)
	neighbour.inShard(1)
	addIn(t, m, scheduled, time.Hour)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					assert.ErrorIs(t, m.AddAt(&scheduled.TaskEntry, 0, time.Hour), errScheduled)
				}
			}
		})
	}
	for range 20_000 {
		if err := m.AddAt(&neighbour.TaskEntry, 0, time.Hour); err != nil {
			assert.NoError(t, err)
			break
		}
		m.Cancel(&neighbour.TaskEntry)
	}
	close(stop)
	wg.Wait()
	require.EqualValues(t, 1, m.pending.Load())
}
