package workload

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// small is a trial of a run.
func small() *Run {
	return &Run{Rounds: 1, Million: 1000, Heap: 1 << 20, Set: &result.Set{}, Progress: io.Discard}
}

// Every family runs in small, and yields every workload that it lists. What the open loop does has tests of its own: it is
// a rate over some time, of which a trial has none.
func TestFamiliesYieldTheirWorkloads(t *testing.T) {
	for _, f := range Families() {
		if f.Name == "open loop" {
			continue
		}
		r := small()
		require.NoError(t, r.Measure(f))
		for _, w := range f.Workloads {
			found := slices.ContainsFunc(r.Set.Samples, func(s result.Sample) bool { return s.Workload == w.Name })
			assert.True(t, found, w.Name)
		}
		if f.Name == "life" {
			assertBothHeaps(t, r)
		}
		for _, s := range r.Set.Samples {
			_, perOp := s.Metrics[result.AllocsOp]
			_, perSecond := s.Metrics[result.AllocsSec]
			assert.True(t, perOp || perSecond, "%s %s %s: no allocations", s.Workload, s.Params, s.Peer)
			for unit, v := range s.Metrics {
				assert.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s %s %s: %s is %v", s.Workload, s.Params, s.Peer, unit, v)
				assert.False(t, strings.ContainsAny(unit, " \t"), unit)
			}
		}
	}
}

// assertBothHeaps checks that P1 and P2 are measured with next to no live heap and beside one, each peer in every round.
func assertBothHeaps(t *testing.T, r *Run) {
	t.Helper()
	for _, w := range []string{"P1", "P2"} {
		for _, params := range []string{"G=1", "G=2", "G=1/heap=1MB", "G=2/heap=1MB"} {
			for _, peer := range []string{purgatories.Ours, purgatories.CB, purgatories.Chan, timers.Alone} {
				n := 0
				for _, s := range r.Set.Samples {
					if s.Workload == w && s.Params == params && s.Peer == peer {
						n++
					}
				}
				assert.Equal(t, r.Rounds, n, "%s %s %s", w, params, peer)
			}
		}
	}
}

func TestExpiryRecordsEveryDeadline(t *testing.T) {
	t.Parallel()
	r := small()
	timersExpire(r, 0, 1000, timers.Entry)
	require.Len(t, r.Set.Samples, 1)
	m := r.Set.Samples[0].Metrics
	assert.NotContains(t, m, result.Lost)
	assert.Zero(t, m[result.EarlyN])
	assert.LessOrEqual(t, m[result.LateP50], m[result.LateP99])
	assert.LessOrEqual(t, m[result.LateP99], m[result.LateMax])
}

func TestOperationsExpireAndProbesDo(t *testing.T) {
	t.Parallel()
	r := small()
	operationsExpire(r, 0, purgatories.Ours)
	probesOne(r, 0, purgatories.Ours)
	require.Len(t, r.Set.Samples, 2)
	for _, s := range r.Set.Samples {
		assert.NotContains(t, s.Metrics, result.Lost, s.Workload)
		assert.Zero(t, s.Metrics[result.EarlyN], s.Workload)
	}
}

func TestTheLibraryLosesNoDeadlineInSilence(t *testing.T) {
	r, m := small(), map[string]float64{}
	r.lost(timers.Std, 3, m)
	assert.Equal(t, map[string]float64{result.Lost: 3}, m)
	require.NoError(t, r.err)
	r.lost(timers.Entry, 0, m)
	require.NoError(t, r.err)
	r.lost(timers.Entry, 2, m)
	require.ErrorContains(t, r.err, "2 deadlines")
}

// null is no purgatory at all.
type null struct{}

type nullOp struct{ lane *purgatories.Lane }

func (null) Submit(l *purgatories.Lane, _ time.Duration, _ []string) purgatories.Operation {
	return nullOp{l}
}
func (null) Settle(*purgatories.Lane) {}
func (null) Check(string)             {}
func (null) Force(op purgatories.Operation) bool {
	op.(nullOp).lane.Complete()
	return true
}
func (null) Pending() int { return 0 }
func (null) Close()       {}

// closing notes what is pending when it is closed.
type closing struct {
	purgatories.Purgatory
	left int
}

func (c *closing) Close() {
	c.left = c.Pending()
	c.Purgatory.Close()
}

func TestOpenLoopEndsWhatArrived(t *testing.T) {
	table := arrivals(1 << 12)
	for _, name := range []string{"", purgatories.Ours, purgatories.CB, purgatories.Chan} {
		synctest.Test(t, func(t *testing.T) {
			p := &closing{Purgatory: null{}, left: -1}
			if name != "" {
				p.Purgatory = purgatories.New(name)
			}
			o := offer(p, table, 5000, 300*time.Millisecond)
			assert.Zero(t, p.left, name)
			assert.InEpsilon(t, 1500, o.arrived, 0.1, name)
			assert.Positive(t, o.forced, name)
			assert.LessOrEqual(t, o.forced, o.arrived, name)
			assert.True(t, o.held(), name)
		})
	}
}

// slow takes a while, of its bubble's time, to submit an operation.
type slow struct {
	purgatories.Purgatory
	takes time.Duration
}

func (s slow) Submit(l *purgatories.Lane, timeout time.Duration, keys []string) purgatories.Operation {
	time.Sleep(s.takes)
	return s.Purgatory.Submit(l, timeout, keys)
}

func TestAGeneratorFarBehindGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, window = 1_000_000, time.Minute
		p := slow{null{}, 20 * time.Microsecond}
		c := newCompleter(p)
		c.start()
		start := time.Now()
		n := generate(p, purgatories.NewLane(), c, arrivals(1<<12), rate, window)
		assert.Less(t, time.Since(start), 2*time.Second, "of the bubble's time")
		forced, lag := c.stop()
		assert.Positive(t, forced)
		assert.False(t, offered{target: rate, arrived: n, window: window, lag: lag}.held())
	})
}

// A pause of a few milliseconds is 1 % of a short window, and does not decide whether a rate is held.
func TestARateIsHeldIfLittleIsMissingAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		window  time.Duration
		arrived int64
		lag     time.Duration
		held    bool
	}{
		{10 * time.Second, 991_000, 0, true},
		{10 * time.Second, 989_000, 0, false},
		{10 * time.Second, 1_000_000, 150 * time.Millisecond, false},
		{600 * time.Millisecond, 58_000, 10 * time.Millisecond, true},
		{600 * time.Millisecond, 48_000, 10 * time.Millisecond, false},
	} {
		o := offered{target: 100_000, window: c.window, arrived: c.arrived, lag: c.lag}
		assert.Equal(t, c.held, o.held(), "%+v", c)
	}
}

func TestTheHighestRungIsFoundFromTheUsualOne(t *testing.T) {
	for _, c := range []struct {
		limit, want int
		tried       []int
	}{
		{400_000, 400_000, []int{500_000, 400_000}},
		{250_000, 200_000, []int{500_000, 400_000, 300_000, 200_000}},
		{600_000, 500_000, []int{500_000, 700_000}},
		{1_100_000, 1_000_000, []int{500_000, 700_000, 850_000, 1_000_000, 1_200_000}},
		{9_000_000, 2_000_000, ladder[usual:]},
	} {
		var tried []int
		best := climb(func(rate int) bool {
			tried = append(tried, rate)
			return rate <= c.limit
		})
		assert.Equal(t, c.want, ladder[best])
		assert.Equal(t, c.tried, tried)
	}
	assert.Equal(t, -1, climb(func(int) bool { return false }))
}

// punctual counts the operations that are ended too soon after they were submitted. Submitting takes it a while.
type punctual struct {
	purgatories.Purgatory
	least   time.Duration
	tooSoon int
}

func (p *punctual) Submit(*purgatories.Lane, time.Duration, []string) purgatories.Operation {
	start := time.Now()
	time.Sleep(100 * time.Microsecond)
	return start
}

func (p *punctual) Force(op purgatories.Operation) bool {
	if time.Since(op.(time.Time)) < p.least {
		p.tooSoon++
	}
	return true
}

// A generator that is behind submits what it has missed; the time to completion runs from then on.
func TestCompletionsAreTimedFromTheSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const latency = 190 // less than the timeout
		// The generator looks at the clock every 256 requests, which take 26 ms.
		p := &punctual{Purgatory: purgatories.Purgatory(null{}), least: (latency - 30) * time.Millisecond}
		c := newCompleter(p)
		c.start()
		generate(p, purgatories.NewLane(), c, []arrival{{gap: 1, latency: latency}}, 100_000, 800*time.Millisecond)
		forced, _ := c.stop()
		assert.Positive(t, forced)
		assert.Zero(t, p.tooSoon)
	})
}

func TestCompleterTakesTheNextPageWhenOneIsTurned(t *testing.T) {
	c := newCompleter(purgatories.Purgatory(null{}))
	const turned = 500
	c.mu.turned = turned
	c.at(0, nil)
	assert.Len(t, c.mu.pages[turned+1], 1)
}

func TestLatenciesHaveTheirQuartiles(t *testing.T) {
	var latencies []int32
	gaps := 0.0
	for _, a := range arrivals(1 << 15) {
		latencies = append(latencies, a.latency)
		gaps += a.gap
	}
	assert.InEpsilon(t, 1<<15, gaps, 1e-9)
	slices.Sort(latencies)
	assert.InEpsilon(t, 20, latencies[len(latencies)/2], 0.06)
	assert.InEpsilon(t, 60, latencies[len(latencies)*3/4], 0.06)
	assert.InDelta(t, 1.6288, sigma, 1e-3)
}

func TestAnOperationOfATurnedPageIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := purgatories.Purgatory(null{})
		c := newCompleter(p)
		c.start()
		time.Sleep(5 * time.Millisecond)
		op := p.Submit(purgatories.NewLane(), time.Minute, nil)
		c.at(0, op) // long turned
		time.Sleep(15 * time.Millisecond)
		forced, _ := c.stop()
		assert.EqualValues(t, 1, forced)
	})
}

// restless says only when it is asked for the third time that it is at rest.
type restless struct {
	timers.Timers
	asked int
}

func (r *restless) AtRest() bool {
	r.asked++
	return r.asked == 3
}

func TestALoopWaitsUntilThePeerIsAtRest(t *testing.T) {
	peer := &restless{Timers: timers.New(timers.Std)}
	r := small()
	r.Window = 1
	addCancelOne(r, 0, 1, "restless", peer)
	assert.Equal(t, 3, peer.asked)
}
