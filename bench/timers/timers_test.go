package timers

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every adapter does what it is measured at: what is added fires once with its index, what is cancelled does not.
func TestPeersFireAndCancel(t *testing.T) {
	for _, name := range []string{Entry, Handle, Std, RussellLuo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for fireAndCancel(t, New(name)) > timeout { // on a busy machine it may have fired before
			}
		})
	}
}

const timeout = 100 * time.Millisecond

// fireAndCancel adds three timers, and cancels one of them. It returns how long that took: if longer than timeout, it has
// checked nothing.
func fireAndCancel(t *testing.T, p Timers) (took time.Duration) {
	var fired [3]atomic.Int64
	var all atomic.Int64
	s := p.Slots(3, func(i int) {
		fired[i].Add(1)
		all.Add(1)
	})
	began := time.Now()
	for i := range 3 {
		s.Add(i, timeout)
	}
	s.Cancel(1)
	if took = time.Since(began); took > timeout {
		return took
	}
	require.Eventually(t, func() bool { return all.Load() >= 2 }, time.Minute, 5*time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	assert.Equal(t, [3]int64{1, 0, 1}, [3]int64{fired[0].Load(), fired[1].Load(), fired[2].Load()})
	return took
}

func TestASlotCanBeUsedAgain(t *testing.T) {
	for _, name := range []string{Entry, Handle, Std, RussellLuo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := New(name)
			bare := p.Slots(1, nil)
			bare.Add(0, time.Minute)
			bare.Cancel(0)
			bare.Add(0, time.Minute)
			bare.Cancel(0)
		})
	}
}
