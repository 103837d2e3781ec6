package debug

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// watched returns a sample a second, each of numbers that of sets.
func watched(from time.Time, count int, of func(second int64, n *purgatory.Stats)) []sample[purgatory.Stats] {
	samples := make([]sample[purgatory.Stats], count)
	for i := range samples {
		samples[i].at = from.Add(time.Duration(i) * time.Second)
		of(int64(i), &samples[i].stats)
	}
	return samples
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRatesArePerSecond(t *testing.T) {
	samples := watched(noon, 20, func(second int64, n *purgatory.Stats) {
		n.Satisfied, n.Forced, n.Expired, n.Checks = 1000*second, 20*second, 300*second, 7*second
		n.Cancelled, n.Closed = 5*second, second
		n.Pending = 40
		n.Accepted = n.Pending + n.Satisfied + n.Forced + n.Expired + n.Cancelled + n.Closed
	})
	r, known := ratesOf(samples)
	require.True(t, known)
	assert.Equal(t, rates{accepted: 1326, ended: 1326, expired: 300, checks: 7}, r)
	h := viewHistory(samples)
	require.Len(t, h, 20)
	assert.Empty(t, h[0].Ended)
	for _, s := range h[1:] {
		assert.Equal(t, []float64{1000, 20, 300, 5, 1}, s.Ended)
		assert.EqualValues(t, 40, s.Pending)
	}
	assert.EqualValues(t, 1000, h[1].Time-h[0].Time)

	_, known = ratesOf(samples[:1])
	assert.False(t, known)
	slow := []sample[purgatory.Stats]{samples[0], samples[10]} // one sample in ten seconds
	r, _ = ratesOf(slow)
	assert.InDelta(t, 300, r.expired, 0)
	assert.InDelta(t, 300, viewHistory(slow)[1].Ended[operation.Expired-1], 0)
}

// TestAPauseIsNotTheLastSeconds: the page has not sampled for a while.
func TestAPauseIsNotTheLastSeconds(t *testing.T) {
	samples := watched(noon, 61, func(second int64, n *purgatory.Stats) { n.Expired = 1000 * second })
	_, known := ratesOf([]sample[purgatory.Stats]{samples[0], samples[60]})
	assert.False(t, known)
	samples[60].stats.Expired += 70
	r, _ := ratesOf([]sample[purgatory.Stats]{samples[0], samples[59], samples[60]})
	assert.InDelta(t, 1070, r.expired, 0, "of the last second")
}

func TestTheWindowIsNamedForItsLength(t *testing.T) {
	for length, name := range map[time.Duration]string{
		90 * time.Second: "in the last 90 s", 2 * time.Minute: "in the last 2 min", 144 * time.Second: "in the last 2.4 min", 4 * time.Minute: "in the last 4 min",
	} {
		assert.Equal(t, name, (&window{length: length}).name())
	}
}

// TestCallbacksThatAlwaysRun are seen once the page has looked often enough, and has never found fewer.
func TestCallbacksThatAlwaysRun(t *testing.T) {
	samples := watched(noon, 240, func(second int64, n *purgatory.Stats) { n.Running = 3 + second%5 })
	last := samples[239].at
	n := &purgatory.Stats{Running: 9}
	assert.EqualValues(t, 3, alwaysRunning(samples, n, last, busyTime))
	assert.EqualValues(t, 1, alwaysRunning(samples, &purgatory.Stats{Running: 1}, last, busyTime), "now")
	samples[200].stats.Running = 0
	assert.EqualValues(t, 3, alwaysRunning(samples, n, last, busyTime))
	assert.Zero(t, alwaysRunning(samples, n, last, time.Minute), "none at one look")
	assert.Zero(t, alwaysRunning(samples[221:], n, last, busyTime), "one look less")
	assert.Zero(t, alwaysRunning(samples[:230], n, last, busyTime), "nobody has looked for a while")
}

// TestTheWindowIsOfTheLastMinutes, also after an hour in which nobody looked.
func TestTheWindowIsOfTheLastMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFetches(t)
		page := pageOf(p)
		defer page.Close()
		look := func() PurgatoryView {
			page.want()
			return page.view(nil).Purgatories[0]
		}
		look()
		time.Sleep(30 * time.Second)
		assert.InDelta(t, 30, look().Window.Seconds, 0)
		time.Sleep(3 * time.Minute) // the page samples for two of them
		got := look()
		assert.Equal(t, "in the last 3.5 min", got.Window.Text)
		assert.Nil(t, got.Rates, "the sample before is a minute old")
		time.Sleep(time.Hour)
		got = look()
		assert.Equal(t, "since start", got.Window.Text)
		assert.Len(t, got.History, 1)
		time.Sleep(time.Minute)
		assert.Equal(t, "in the last 60 s", look().Window.Text)
	})
}

// TestTheLastMinuteIsShorterThanTheWindow has operations expire for a minute, and then end as they should.
func TestTheLastMinuteIsShorterThanTheWindow(t *testing.T) {
	samples := watched(noon, 180, func(second int64, s *purgatory.Stats) {
		s.Accepted, s.Expired, s.Pending = 10*second+3, 10*min(second, 100), 3
	})
	at := func(second int) (w window) {
		n := samples[second].stats
		return windowOf(samples[:second], &n, samples[second].at)
	}
	assert.Equal(t, minute{0, 50, 50}, at(5).minute, "since start: it has not watched for long")
	assert.Equal(t, minute{50 * time.Second, 500, 500}, at(50).minute, "no more is known")
	assert.Equal(t, minute{time.Minute, 600, 600}, at(100).minute)
	assert.Equal(t, minute{time.Minute, 600, 300}, at(130).minute)
	assert.Equal(t, minute{time.Minute, 600, 0}, at(170).minute)
}

// TestWhatIsDueIsSeenTwice: many may expire at once, and are due for a moment.
func TestWhatIsDueIsSeenTwice(t *testing.T) {
	samples := watched(noon, 3, func(second int64, s *purgatory.Stats) { s.Due = 100 * second })
	at := func(now time.Duration) int64 {
		w := windowOf(samples, &purgatory.Stats{Due: 250}, noon.Add(now))
		return w.due
	}
	last := time.Duration(len(samples)-1) * time.Second
	assert.EqualValues(t, 100*(len(samples)-2), at(last), "the sample of this moment is no second look")
	assert.EqualValues(t, min(250, 100*(len(samples)-1)), at(last+time.Second))
	w := windowOf(nil, &purgatory.Stats{Due: 250}, noon)
	assert.Zero(t, w.due)
}

// TestRatesAreOfTheLastSeconds: what was long ago does not count.
func TestRatesAreOfTheLastSeconds(t *testing.T) {
	r, _ := ratesOf(watched(noon, 100, func(second int64, n *purgatory.Stats) { n.Expired = 1000 * min(second, 90) }))
	assert.Zero(t, r.expired)
}

func TestTheWindowHasWhatHappenedInIt(t *testing.T) {
	n := newFetches(t, purgatory.WithHistograms()).Stats()
	samples := watched(noon, 60, func(second int64, s *purgatory.Stats) {
		*s = n
		s.Panics, s.Rejected, s.RejectedFull, s.Checks, s.WastedChecks = 10, 20, 10, 1000+second, 900+second
		s.Expired, s.SlowCallbacks, s.ReaperStalls = 500+second, 4, 5
		s.Late.Counts[3], s.Late.Counts[purgatory.HistogramBuckets-1] = 7, 8
		s.Pending = second
	})
	last := samples[59].stats
	last.Panics, last.Rejected, last.RejectedFull = 13, 25, 12
	last.Late.Counts[purgatory.HistogramBuckets-1] = 12
	w := windowOf(samples, &last, noon.Add(time.Minute))
	assert.Equal(t, time.Minute, w.length)
	assert.Equal(t, "in the last 60 s", w.name())
	assert.EqualValues(t, 3, w.panics)
	assert.EqualValues(t, 5, w.rejected)
	assert.EqualValues(t, 2, w.rejectedFull)
	assert.EqualValues(t, 59, w.checks)
	assert.EqualValues(t, 59, w.wasted)
	assert.EqualValues(t, 59, w.ended[operation.Expired])
	assert.Zero(t, w.slowCallbacks)
	assert.Zero(t, w.stalls)
	assert.EqualValues(t, 4, w.late.Count())
	assert.EqualValues(t, 4, w.late.Counts[purgatory.HistogramBuckets-1])
	assert.Equal(t, []int64{0, 30, 59}, []int64{w.pendingBefore, w.pendingHalfway, w.pendingAt})

	// Who has only just come is told what has happened since start.
	w = windowOf(samples[:1], &last, noon.Add(time.Second))
	assert.Zero(t, w.length)
	assert.Equal(t, "since start", w.name())
	assert.EqualValues(t, 13, w.panics)
	assert.EqualValues(t, 19, w.late.Count())
}
