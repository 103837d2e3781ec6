package purgatory

import (
	"errors"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// probe is an operation that says yes when ready is set.
type probe struct {
	operation.DelayedOperation
	ready bool
	says  string
	while func() // it is tried, or describes itself
}

func (p *probe) TryComplete() bool { p.meanwhile(); return p.ready }
func (p *probe) OnComplete()       {}
func (p *probe) OnExpiration()     {}
func (p *probe) String() string    { p.meanwhile(); return p.says }

func (p *probe) meanwhile() {
	if p.while != nil {
		p.while()
	}
}

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

	require.NoError(t, p.Close())
	s = p.Stats()
	assert.EqualValues(t, 1, s.Closed)
	assert.EqualValues(t, 5, s.Accepted)
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

// TestStatsTellWhatThePurgeTakesOut keeps a shard busy until a watch in it is left behind.
func TestStatsTellWhatThePurgeTakesOut(t *testing.T) {
	log := &records{}
	p := newManual(t, WithLogger(slog.New(log)))
	a, b := "a", "b"
	for p.watchers.Shard(p.watchers.Hash(a)) == p.watchers.Shard(p.watchers.Hash(b)) {
		b += "b"
	}
	for range 100 {
		submit(t, p, time.Hour, b)
	}
	leave := func() (stale int64) {
		var enough atomic.Bool
		var busy sync.WaitGroup
		busy.Go(func() {
			for !enough.Load() {
				p.CheckAndComplete(b)
			}
		})
		for p.watchers.Stale() == 0 {
			p.ForceComplete(submit(t, p, time.Hour, a, b))
		}
		enough.Store(true)
		busy.Wait()
		return p.Stats().Stale
	}
	stale := leave()
	p.AdvanceClock(0)
	p.AdvanceClock(0)
	s := p.Stats()
	assert.EqualValues(t, 1, s.Purges, "the second found nothing")
	assert.Equal(t, stale, s.Purged)
	assert.Zero(t, s.Stale)
	require.Len(t, log.find(EventPurged), 1)
	assert.EqualValues(t, stale, log.find(EventPurged)[0]["entries"])

	leave()
	require.NoError(t, p.Close())
	assert.Zero(t, p.Stats().Stale, "nobody would purge afterwards")
	assert.Zero(t, p.Watched())
}

func TestWhatIsUsedTwiceGivesItsPlaceBack(t *testing.T) {
	p := newManual(t, WithMaxPending(2))
	op := submit(t, p, time.Hour, "a")
	for range 5 {
		_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
		require.ErrorIs(t, err, ErrUsed)
	}
	submit(t, p, time.Hour, "a")
	_, err := p.TryCompleteElseWatch(&probe{}, time.Hour, "a")
	require.ErrorIs(t, err, ErrFull)
}

func TestWhatTheTimerRefusesGivesItsPlaceBack(t *testing.T) {
	clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
	require.NoError(t, err)
	p, err := New[string]("test", WithTimer(clock), WithMaxPending(1))
	require.NoError(t, err)
	defer p.Close()
	other, err := clock.AfterFunc(time.Hour, func() {})
	require.NoError(t, err)
	_, err = p.TryCompleteElseWatch(&probe{}, time.Hour, "a")
	require.ErrorIs(t, err, timer.ErrFull)
	assert.EqualValues(t, 1, p.Stats().Rejected)
	require.True(t, other.Stop())
	submit(t, p, time.Hour, "a")
}

// leaver ends the goroutine that calls it back.
type leaver struct{ probe }

func (*leaver) OnComplete() { runtime.Goexit() }

// TestWhoLeavesInAQueuedCallbackTakesTheRestOfTheQueue and is not counted any more.
func TestWhoLeavesInAQueuedCallbackTakesTheRestOfTheQueue(t *testing.T) {
	p := newManual(t, WithWatcherShards(1))
	s := &p.watchers.Shards()[0]
	for range watchers.MaxRunning {
		s.Enter()
	}
	for range 3 {
		op := &leaver{}
		_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
		require.NoError(t, err)
		require.True(t, p.ForceComplete(op))
	}
	require.True(t, p.watchers.Queued())
	var group sync.WaitGroup
	group.Go(func() { p.exit(s) })
	group.Wait()
	assert.False(t, p.watchers.Queued())
	var sum watchers.Totals
	s.Totals(&sum)
	assert.Equal(t, watchers.MaxRunning-1, sum.Running)
	for range watchers.MaxRunning - 1 {
		p.exit(s)
	}
}

func TestAClosedPurgatorySaysSoHoweverManyTheKeys(t *testing.T) {
	p := newManual(t)
	require.NoError(t, p.Close())
	keys := make([]string, operation.MaxKeys+1)
	_, err := p.TryCompleteElseWatch(&probe{}, time.Hour, keys[1:]...)
	require.ErrorIs(t, err, ErrClosed)
	_, err = p.TryCompleteElseWatch(&probe{}, time.Hour, keys...)
	require.ErrorIs(t, err, ErrTooManyKeys)
}

func TestHistogramQuantiles(t *testing.T) {
	h := Histogram{unit: time.Millisecond}
	assert.Zero(t, h.Quantile(0.5))
	h.Counts[0], h.Counts[3], h.Counts[Buckets-1] = 50, 49, 1
	assert.Equal(t, time.Millisecond, h.Quantile(0.5))
	assert.Equal(t, 8*time.Millisecond, h.Quantile(0.51))
	assert.Equal(t, 8*time.Millisecond, h.Quantile(0.99))
	assert.Equal(t, h.Bound(Buckets-1), h.Quantile(1))
	h.Sum = 60
	before := h
	h.Counts[3]++
	h.Sum += 0.005
	since := h.Since(&before)
	assert.EqualValues(t, 1, since.Count())
	assert.InDelta(t, 0.005, since.Sum, 1e-9)
	assert.Equal(t, time.Millisecond<<(Buckets-2), h.Bound(Buckets-2))
	assert.EqualValues(t, math.MaxInt64, h.Bound(Buckets-1))
}
