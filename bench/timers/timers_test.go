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
	for _, peer := range Peers() {
		t.Run(peer.Name, func(t *testing.T) {
			t.Parallel()
			p := peer.New()
			defer p.Close()
			var fired [3]atomic.Int64
			var all atomic.Int64
			s := p.Slots(3, func(i int) {
				fired[i].Add(1)
				all.Add(1)
			})
			for i := range 3 {
				s.Add(i, 100*time.Millisecond)
			}
			s.Cancel(1)
			require.Eventually(t, func() bool { return all.Load() >= 2 }, 5*time.Second, 5*time.Millisecond)
			time.Sleep(20 * time.Millisecond)
			assert.Equal(t, [3]int64{1, 0, 1}, [3]int64{fired[0].Load(), fired[1].Load(), fired[2].Load()})
		})
	}
}

func TestASlotCanBeUsedAgain(t *testing.T) {
	for _, peer := range Peers() {
		t.Run(peer.Name, func(t *testing.T) {
			t.Parallel()
			p := peer.New()
			defer p.Close()
			bare := p.Slots(1, nil)
			bare.Add(0, time.Minute)
			bare.Cancel(0)
			bare.Add(0, time.Minute)
			bare.Cancel(0)
		})
	}
}
