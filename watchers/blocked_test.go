package watchers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAGateIsBlockedWhileNobodyComesOut(t *testing.T) {
	w := New(Config[int]{Shards: 4})
	blocked := func(now time.Duration) time.Duration { return w.Blocked(now*time.Second, false) }
	assert.Zero(t, blocked(1), "no shard is used")
	busy, quiet := w.Shard(0).Gate(), w.Shard(1).Gate()
	assert.Zero(t, blocked(2), "nobody is inside")

	quiet.Enter()
	assert.Zero(t, blocked(10), "somebody is inside, since nobody knows when")
	assert.Equal(t, 3*time.Second, blocked(13))
	quiet.Enter()
	assert.Equal(t, 4*time.Second, blocked(14), "one more does not make it shorter")
	busy.Enter()
	busy.Exit(5)
	assert.Equal(t, 5*time.Second, blocked(15), "nor do those who leave another gate")
	busy.Enter()
	assert.Equal(t, 8*time.Second, blocked(18), "the longest")

	quiet.Exit(0)
	assert.Zero(t, blocked(18), "a check in vain has come out, and busy has been seen just now")
	assert.Equal(t, 2*time.Second, blocked(20))
	quiet.Exit(1)
	busy.Exit(1)
	assert.Zero(t, blocked(30))
	busy.Enter()
	assert.Zero(t, blocked(40), "nobody was inside at the last look")
	assert.Zero(t, w.Blocked(time.Minute, true), "after a stall nothing is known")
	assert.Equal(t, time.Second, w.Blocked(time.Minute+time.Second, false))
}

// The counts of a gate wrap around. A look that has found it empty forgets who was inside before.
func TestAGateThatWasEmptyIsNotBlocked(t *testing.T) {
	w := New(Config[int]{Shards: 1})
	g := w.Shard(0).Gate()
	g.Enter()
	assert.Zero(t, w.Blocked(0, false))
	g.Exit(0)
	assert.Zero(t, w.Blocked(time.Minute, false), "nobody is inside")
	for range 63 { // with the first one 64, after which the count is what it was
		g.Enter()
		g.Exit(0)
	}
	g.Enter()
	assert.Zero(t, w.Blocked(time.Hour, false))
	assert.Equal(t, time.Second, w.Blocked(time.Hour+time.Second, false))
}

// TestAGateThatIsAlwaysFullAndAlwaysLeftIsNotBlocked: every look finds somebody inside.
func TestAGateThatIsAlwaysFullAndAlwaysLeftIsNotBlocked(t *testing.T) {
	w := New(Config[int]{Shards: 1})
	g := w.Shard(0).Gate()
	g.Enter()
	for second := range 100 {
		g.Enter()
		g.Exit(0) // a check in vain: nothing is answered
		assert.Zero(t, w.Blocked(time.Duration(second)*time.Second, false))
	}
	g.Exit(0)
}
