package signals_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// lagging is a state whose readers see a write only when it is older than lag.
type lagging struct {
	lag    time.Duration
	mu     sync.Mutex
	writes map[string]time.Time
}

func (l *lagging) write(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[key] = time.Now()
}

func (l *lagging) read(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, written := l.writes[key]
	return written && time.Since(at) >= l.lag
}

// lagRun has waits whose reads lag: one that begins before the change, and one that begins
// between the hint and the moment at which the replica has the change. The change is told by
// hint, or by Missed if hint is nil. It returns how many waits ended, and the number of reads.
func lagRun(t *testing.T, lag time.Duration, hint func(signals.Sink[string]) error, options ...signals.Option) (ended, reads int64) {
	t.Helper()
	p := open(t)
	r, err := signals.To(p, append(options, signals.WithAudit(0))...)
	require.NoError(t, err)
	stop := runIn(t, r, script(stands))
	time.Sleep(time.Minute)
	state := lagging{lag: lag, writes: map[string]time.Time{}}
	var n, answered atomic.Int64
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	wait := func() {
		waiting.Go(func() {
			_, err := signals.AwaitRead(ctx, p, time.Hour, func(context.Context) (bool, bool, error) {
				n.Add(1)
				ok := state.read("a")
				return ok, ok, nil
			}, "a")
			if err == nil {
				answered.Add(1)
			}
		})
		synctest.Wait()
	}
	wait()
	state.write("a")
	require.NoError(t, hint(r))
	synctest.Wait()
	time.Sleep(lag / 2)
	wait()
	time.Sleep(time.Minute)
	synctest.Wait()
	ended = answered.Load()
	cancel()
	waiting.Wait()
	stop()
	require.NoError(t, p.Close())
	return ended, n.Load()
}

func changed(sink signals.Sink[string]) error { sink.Changed("a", 7); return nil }

func TestAReadThatLagsBehindItsHintIsMadeAgain(t *testing.T) {
	for _, c := range []struct {
		lag, option time.Duration
	}{{1, 1}, {time.Millisecond, 2 * time.Second}, {9 * time.Millisecond, 10 * time.Millisecond}, {300 * time.Millisecond, 300 * time.Millisecond}, {2 * time.Second, 2 * time.Second}} {
		for name, hint := range map[string]func(signals.Sink[string]) error{"hint": changed, "gap": stands} {
			t.Run(fmt.Sprint(name, " ", c.lag, " of ", c.option), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ended, _ := lagRun(t, c.lag, hint, signals.WithLag(c.option))
					assert.EqualValues(t, 2, ended)
				})
			})
		}
	}
}

func TestWithoutTheOptionALaggingReadLosesItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, reads := lagRun(t, time.Second, changed, signals.WithLag(0))
		assert.Zero(t, ended)
		assert.EqualValues(t, 3, reads)
	})
}

// At the default: the documentation says five.
func TestHowManyReadsAHintCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, reads := lagRun(t, 10*time.Minute, changed)
		assert.LessOrEqual(t, reads, int64(1+1+5+1+5))
	})
}

// many is a purgatory with one wait, which counts the hints.
type many struct {
	hints *atomic.Int64
	all   *atomic.Int64
}

func (m many) SignalUpTo(_ string, position int64) bool {
	if position == signals.Unknown {
		m.all.Add(1)
	}
	m.hints.Add(1)
	return true
}
func (many) Keys() iter.Seq[string] { return func(y func(string) bool) { y("waits") } }

// noting is a purgatory in which nothing waits, and which notes when each key was signalled.
type noting struct {
	nobody
	mu    sync.Mutex
	at    map[string][]time.Time
	up    map[string]int64 // the sum of the positions
	stall time.Duration    // for which the first repeat of key 20 blocks
}

func (n *noting) SignalUpTo(key string, position int64) bool {
	n.mu.Lock()
	n.at[key] = append(n.at[key], time.Now())
	n.up[key] += position
	stalls := key == "20" && len(n.at[key]) == 2
	n.mu.Unlock()
	if stalls {
		time.Sleep(n.stall)
	}
	return false
}

// Hints of a stream are said again at the times that WithLag states, each of them as if it came
// alone; after a stall, which makes repeats late, none is early.
func TestWhenAHintIsSaidAgain(t *testing.T) {
	for _, c := range []struct {
		lag, first time.Duration // the first pause is from first to twice that
		times      int
		stall      time.Duration
	}{
		{time.Millisecond, time.Millisecond, 1, 0},
		{20 * time.Millisecond, 10 * time.Millisecond, 2, 0},
		{2 * time.Second, 10 * time.Millisecond, 5, 0},
		{20 * time.Millisecond, 10 * time.Millisecond, 2, 100 * time.Millisecond},
		{50 * time.Millisecond, 10 * time.Millisecond, 2, 400 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c.lag, " after a stall of ", c.stall), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &noting{at: map[string][]time.Time{}, up: map[string]int64{}, stall: c.stall}
				r, err := signals.To[string](n, signals.WithLag(c.lag), signals.WithAudit(0))
				require.NoError(t, err)
				stop := runIn(t, r, script())
				for i := range 200 {
					r.Changed(fmt.Sprint(i), int64(i))
					time.Sleep(3 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				stop()
				assert.Len(t, n.at, 200)
				for key, at := range n.at {
					require.Len(t, at, 1+c.times, key)
					require.Equal(t, key, fmt.Sprint(n.up[key]/int64(len(at))), "each time with its own position")
					first, last := at[1].Sub(at[0]), at[c.times].Sub(at[0])
					assert.GreaterOrEqual(t, first, c.first, key)
					assert.LessOrEqual(t, first, 2*c.first+c.stall, key)
					assert.GreaterOrEqual(t, last, c.lag, key)
					assert.LessOrEqual(t, last, 2*c.lag+c.stall, key)
				}
			})
		})
	}
}

// However many keys change, what is remembered is bounded; beyond the bound everything that
// waits is signalled again.
func TestWhatIsSaidAgainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := many{new(atomic.Int64), new(atomic.Int64)}
		r, err := signals.To[string](m, signals.WithAudit(0))
		require.NoError(t, err)
		stop := runIn(t, r, script())
		const bound = 1 << 16
		for i := range bound + 1 { // one too many
			r.Changed(fmt.Sprint(i), 1)
		}
		time.Sleep(time.Minute)
		assert.EqualValues(t, 5, m.all.Load(), "each level once")
		assert.EqualValues(t, bound+1+5, m.hints.Load(), "and no key alone")
		for i := range bound {
			r.Changed(fmt.Sprint(i), 1)
		}
		time.Sleep(time.Minute)
		assert.EqualValues(t, 5, m.all.Load())
		assert.EqualValues(t, 5*bound, r.Stats().Repeats)
		stop()
	})
}

// The highest position is the one that is said again.
func TestARepeatHasTheHighestPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		r, err := signals.To(p, signals.WithAudit(0))
		require.NoError(t, err)
		stop := runIn(t, r, script())
		var met atomic.Bool
		done := make(chan error, 1)
		go func() {
			done <- p.AwaitAt(t.Context(), time.Minute, met.Load, purgatory.KeyPosition[string]{Key: "a", Position: 5})
		}()
		synctest.Wait()
		for _, position := range []int64{3, 5, 4} {
			r.Changed("a", position)
		}
		synctest.Wait()
		met.Store(true)
		assert.NoError(t, <-done)
		stop()
		require.NoError(t, p.Close())
	})
}

// A gap that follows a hint is said again as often as one that comes alone.
func TestAGapAfterAHintIsSaidAgainAsOften(t *testing.T) {
	for _, between := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := open(t)
			r, err := signals.To(p, signals.WithLag(2*time.Second), signals.WithAudit(0))
			require.NoError(t, err)
			stop := runIn(t, r, script(stands))
			time.Sleep(time.Minute)
			alone := r.Stats().Rechecks
			r.Changed("a", signals.Unknown)
			time.Sleep(between)
			r.Missed(errBroken)
			time.Sleep(time.Minute)
			assert.GreaterOrEqual(t, r.Stats().Rechecks-alone, alone, "%v after a hint", between)
			stop()
			require.NoError(t, p.Close())
		})
	}
}

// A read that sees an older position than that of a hint is behind it.
func TestReadsThatLagAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r, err := signals.To[string](nobody{}, signals.WithAudit(0), signals.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Minute) // what follows the first gap is over
		r.Changed("key", 7)
		r.Changed("unknown", signals.Unknown)
		time.Sleep(15 * time.Millisecond)
		for key, position := range map[string]int64{"key": 7, "unknown": 1, "another": 1} {
			r.Saw(key, position)
			assert.Zero(t, r.Stats().Lag, key)
		}
		r.Saw("key", 6)
		assert.Equal(t, 15*time.Millisecond, r.Stats().Lag)
		time.Sleep(time.Second)
		r.Changed("key", 9) // the hint of 7 is the older one that the next read is behind
		r.Saw("key", 8)
		assert.Equal(t, 15*time.Millisecond, r.Stats().Lag)
		r.Saw("key", 6)
		assert.Equal(t, 1015*time.Millisecond, r.Stats().Lag)
		synctest.Wait()
		assert.NotContains(t, log.String(), signals.EventLag)
		for range 300 { // a read follows each repeat
			time.Sleep(10 * time.Millisecond)
			r.Saw("key", 8)
		}
		s := r.Stats()
		assert.GreaterOrEqual(t, s.Lag, s.LagAllowed, "also a read after the last repeat is seen to be behind")
		assert.Equal(t, 2*time.Second, s.LagAllowed)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), signals.EventLag))
		time.Sleep(time.Minute)
		r.Changed("other", 1) // the last level turns again
		time.Sleep(time.Minute)
		before := r.Stats().Lag
		r.Saw("key", 8)
		assert.Equal(t, before, r.Stats().Lag, "the hint is forgotten")
		stop()
	})
}

// reader reads whenever it is signalled, at a replica that is far behind.
type reader struct {
	nobody
	runner *signals.Runner[string]
}

func (r *reader) SignalUpTo(key string, _ int64) bool { r.runner.Saw(key, 6); return true }

// Of two hints of a key a read may be behind the first, the second, or both: the lag is that of the earliest
// that is remembered.
func TestTheLagIsThatOfTheEarliestHintThatIsAhead(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		second int64         // the position of the second hint; that of the first is 7
		apart  time.Duration // between the two
		read   int64         // 3 ms after the second, or when the lag has become that long
		lag    time.Duration
	}{
		"both young, behind the second":                         {9, 5 * ms, 8, 3 * ms},
		"both young, not behind":                                {9, 5 * ms, 9, 0},
		"both young, the second is lower":                       {5, 5 * ms, 6, 8 * ms},
		"the same twice":                                        {7, 5 * ms, 6, 8 * ms},
		"the first was said, behind both":                       {9, 15 * ms, 6, 18 * ms},
		"the first was said, behind the second":                 {9, 15 * ms, 7, 3 * ms},
		"the first was said for the last time":                  {9, 500 * ms, 6, 503 * ms},
		"the first was said for the last time, and seen":        {9, 500 * ms, 7, 3 * ms},
		"the first was said for the last time, the second once": {9, 500 * ms, 6, 530 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := signals.To[string](nobody{}, signals.WithAudit(0), signals.WithLag(100*ms))
				require.NoError(t, err)
				stop := runIn(t, r, script(stands))
				time.Sleep(time.Minute) // what follows the first gap is over
				r.Changed("key", 7)
				time.Sleep(c.apart)
				r.Changed("key", c.second)
				time.Sleep(max(3*ms, c.lag-c.apart))
				r.Saw("key", c.read)
				assert.Equal(t, c.lag, r.Stats().Lag)
				stop()
			})
		})
	}
}

// The last read that a hint causes is the one that shows that WithLag is too short.
func TestTheReadAfterTheLastRepeatShowsThatTheLagIsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &reader{}
		var err error
		w.runner, err = signals.To[string](w, signals.WithAudit(0), signals.WithLag(100*time.Millisecond))
		require.NoError(t, err)
		stop := runIn(t, w.runner, script(stands))
		time.Sleep(time.Minute) // what follows the first gap is over
		w.runner.Changed("key", 7)
		time.Sleep(time.Second)
		s := w.runner.Stats()
		assert.Greater(t, s.Lag, s.LagAllowed)
		stop()
	})
}
