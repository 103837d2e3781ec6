package purgatory

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// coin is an operation whose TryComplete returns true at random.
type coin struct {
	operation.DelayedOperation
	ended *atomic.Int64
}

func (c *coin) TryComplete() bool { return rand.IntN(4) == 0 }
func (c *coin) OnComplete()       { c.ended.Add(1) }
func (c *coin) OnExpiration()     {}

// Operations begin and end on several keys, shards and goroutines at once. Afterwards the
// histograms, the ages and the counts of the keys agree with the counters.
func TestHistogramsAndKeyCountsAgreeWithCounters(t *testing.T) {
	p, err := New[int]("observed", WithHistograms(), WithKeyStats(1<<14), WithWatcherShards(16))
	require.NoError(t, err)
	var ended atomic.Int64
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for i := range 500 {
				op := &coin{ended: &ended}
				keys := []int{rand.IntN(50), 50 + rand.IntN(50), 100}[:1+rand.IntN(3)]
				_, err := p.TryCompleteElseWatch(op, time.Duration(rand.IntN(20))*time.Millisecond, keys...)
				assert.NoError(t, err)
				switch i % 7 {
				case 0:
					p.Cancel(op, nil)
				case 1:
					p.ForceComplete(op)
				case 2:
					p.CheckAndComplete(keys[len(keys)-1])
				case 3:
					p.Inspect(5, 5)
				}
			}
		})
	}
	running.Wait()
	held := &probe{}
	_, err = p.TryCompleteElseWatch(held, time.Hour, 1000)
	require.NoError(t, err)
	quiet := func() bool {
		t := p.totals(nil)
		return t.Pending() == 1 && t.Watched == 1 && t.Accepted == ended.Load()+1 && p.watchers.Inside() == 0 && p.crew.pool.Running() == 0
	}
	require.Eventually(t, quiet, 30*time.Second, time.Millisecond)

	s := p.Stats()
	assert.EqualValues(t, 1, s.Ages.Count())
	assert.Equal(t, s.Accepted, s.Pending+ended.Load())
	for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
		assert.Equal(t, s.Ended(o), s.Waited[o].Count(), "%v", o)
	}
	assert.Equal(t, s.Expired, s.Late.Count())
	var tries, wasted int64
	for _, k := range p.Inspect(1<<20, 0).Hot {
		tries += k.Tries
		wasted += k.Wasted
	}
	assert.Equal(t, s.Checks, tries)
	assert.Equal(t, s.WastedChecks, wasted)
	require.NoError(t, p.Close())
	s = p.Stats()
	assert.Zero(t, s.OldestAge)
	assert.EqualValues(t, 1, s.Waited[operation.Closed].Count())
}

// An operation costs its own allocation only, whichever observing options are set.
func TestObservingOptionsAllocateNothingPerOperation(t *testing.T) {
	p := newManual(t, WithHistograms(), WithKeyStats(512), WithSlowCallback(time.Hour))
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	i := 0
	life := func() {
		op := &probe{}
		i++
		_, _ = p.TryCompleteElseWatch(op, time.Second, keys[i%len(keys)], "quiet", "quieter")
		op.ready = true
		p.CheckAndComplete(keys[i%len(keys)])
	}
	for range 1000 { // recycled lists, cells, pools
		life()
	}
	most := 1.0
	if RaceDetector { // it makes a sync.Pool drop items
		most = 3
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(2000, life), most)
}
