package group

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAClientThatIsGoneWaitsNot: also if it went before its request began to wait, because another goroutine was busy with
// what the group had put off.
func TestAClientThatIsGoneWaitsNot(t *testing.T) {
	b := newBench(t)
	x, y, generation := b.pair()
	busy := func(meanwhile func()) {
		g, running, goOn, done := b.group("g"), make(chan struct{}), make(chan struct{}), make(chan struct{})
		g.actions.add(func() {
			close(running)
			<-goOn
		})
		go func() {
			defer close(done)
			g.actions.run()
		}()
		<-running
		meanwhile()
		close(goOn)
		<-done
	}
	busy(func() {
		b.join(1, x, nil) // it leads: a rebalance
		b.leave(1)
	})
	require.Equal(t, int64(1), b.Rebalances.Stats().Pending, "the rebalance")
	joinX, joinY := b.join(3, x, nil), b.join(2, y, nil)
	leads := joinX.get(t).LeaderID
	joinY.get(t)
	follower := map[string]string{x: y, y: x}[leads]
	busy(func() {
		b.sync(4, follower, generation+1)
		b.leave(4)
	})
	require.Zero(t, b.Rebalances.Stats().Pending)
}
