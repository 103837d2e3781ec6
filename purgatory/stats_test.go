package purgatory

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// probe is an operation that says yes when ready is set.
type probe struct {
	operation.DelayedOperation
	ready bool
	says  string
}

func (p *probe) TryComplete() bool { return p.ready }
func (p *probe) OnComplete()       {}
func (p *probe) OnExpiration()     {}
func (p *probe) String() string    { return p.says }

// newManual returns a purgatory on a manual clock.
func newManual(t *testing.T, opts ...Option) *DelayedOperationPurgatory[string] {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := New[string]("test", append(opts, WithTimer(clock))...)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func submit(t *testing.T, p *DelayedOperationPurgatory[string], timeout time.Duration, keys ...string) *probe {
	t.Helper()
	op := &probe{}
	_, err := p.TryCompleteElseWatch(op, timeout, keys...)
	require.NoError(t, err)
	return op
}

func TestStatsTellWaitAndLatenessByOutcome(t *testing.T) {
	p := newManual(t, WithHistograms())
	_, err := p.TryCompleteElseWatch(&probe{ready: true}, time.Second, "a")
	require.NoError(t, err)
	satisfied := submit(t, p, time.Minute, "a", "b")
	cancelled := submit(t, p, time.Minute, "b")
	submit(t, p, 100*time.Millisecond, "c")
	oldest := submit(t, p, time.Hour, "d")

	p.AdvanceClock(3 * time.Millisecond)
	satisfied.ready = true
	assert.Equal(t, 1, p.CheckAndComplete("b"))
	p.AdvanceClock(time.Second)
	assert.True(t, p.Cancel(cancelled, errors.New("gone")))
	p.AdvanceClock(time.Minute)

	s := p.Stats()
	require.True(t, s.Timed)
	assert.EqualValues(t, 5, s.Accepted)
	assert.Equal(t, s.Accepted, s.Pending+s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
	for o := range s.Waited {
		if o := operation.Outcome(o); o != operation.Pending {
			assert.Equal(t, s.Ended(o), s.Waited[o].Count(), "%v", o)
		}
	}
	assert.EqualValues(t, 1, s.Waited[operation.Satisfied].Counts[0], "did not have to wait")
	assert.EqualValues(t, 1, s.Waited[operation.Satisfied].Counts[2], "3 ms lie in the bucket up to 4 ms")
	assert.InDelta(t, 0.003, s.Waited[operation.Satisfied].Sum, 1e-9)
	assert.Equal(t, 1024*time.Millisecond, s.Waited[operation.Cancelled].Quantile(0.5), "1.003 s")
	assert.Equal(t, 128*time.Millisecond, s.Waited[operation.Expired].Quantile(0.99))
	assert.EqualValues(t, 1, s.Late.Count())
	assert.EqualValues(t, 1, s.Late.Counts[0], "a manual clock is never late")

	age := p.timer.Now() - operation.Of(oldest).Start()
	assert.GreaterOrEqual(t, s.OldestAge, age)
	assert.LessOrEqual(t, s.OldestAge, age+age*4/63)
	assert.EqualValues(t, 1, s.Ages.Count())
}

func TestStatsWithoutHistogramsReadNoClock(t *testing.T) {
	p := newManual(t)
	submit(t, p, time.Second, "a")
	p.AdvanceClock(time.Minute)
	s := p.Stats()
	assert.False(t, s.Timed)
	assert.Zero(t, s.OldestAge)
	assert.Zero(t, s.Waited[operation.Expired].Count())
	assert.EqualValues(t, 1, s.Expired)
}

// TestStatsForgetRejectedOperations: what was watched under one key and then refused at a closed shard is not pending.
func TestStatsForgetRejectedOperations(t *testing.T) {
	p := newManual(t, WithHistograms(), WithWatcherShards(2))
	keys := []string{"a"}
	for p.watchers.Shard(p.watchers.Hash(keys[0])) == p.watchers.Shard(p.watchers.Hash(keys[len(keys)-1])) {
		keys = append(keys, keys[len(keys)-1]+"x")
	}
	p.watchers.Shard(p.watchers.Hash(keys[len(keys)-1])).Close()
	_, err := p.TryCompleteElseWatch(&probe{}, time.Second, keys...)
	require.ErrorIs(t, err, ErrClosed)
	p.AdvanceClock(time.Minute)
	s := p.Stats()
	assert.Zero(t, s.Pending)
	assert.Zero(t, s.Ages.Count())
	assert.Zero(t, s.OldestAge)
}

func TestHistogramQuantiles(t *testing.T) {
	h := Histogram{unit: time.Millisecond}
	assert.Zero(t, h.Quantile(0.5))
	h.Counts[0], h.Counts[3], h.Counts[Buckets-1] = 50, 49, 1
	assert.Equal(t, time.Millisecond, h.Quantile(0.5))
	assert.Equal(t, 8*time.Millisecond, h.Quantile(0.51))
	assert.Equal(t, 8*time.Millisecond, h.Quantile(0.99))
	assert.Equal(t, h.Bound(Buckets-1), h.Quantile(1))
	before := h
	h.Counts[3]++
	since := h.Since(&before)
	assert.EqualValues(t, 1, since.Count())
}
