package purgatory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestAStallIsNoCallbackThatBlocks: what ran before the stall did not run during it.
func TestAStallIsNoCallbackThatBlocks(t *testing.T) {
	p := newManual(t)
	gate := p.watchers.Shard(0).Gate()
	gate.Enter()
	defer gate.Exit(0)
	p.AdvanceClock(gateInterval)
	p.AdvanceClock(10 * time.Second)
	assert.Equal(t, 10*time.Second, p.Stats().BlockedFor)
	p.sweep(9 * time.Second) // the reaper has stalled
	assert.Zero(t, p.Stats().BlockedFor)
	p.AdvanceClock(2 * time.Second)
	assert.Equal(t, 2*time.Second, p.Stats().BlockedFor, "it goes on from there")
}
