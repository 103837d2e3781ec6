package timer

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countingClock counts the readings of timer's clock by its driver and workers. A driver reads
// it at most three times for each time that it wakes up. Call countingClock before Start.
func countingClock(timer *SystemTimer) *atomic.Int64 {
	n := new(atomic.Int64)
	timer.clock = spied{timer, func() time.Duration { n.Add(1); return timer.read() }, timer.need}
	return n
}

func newCounted(t *testing.T, opts ...Option) (*SystemTimer, *atomic.Int64) {
	t.Helper()
	timer, err := NewSystemTimer(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	readings := countingClock(timer)
	timer.Start()
	settle(1)
	return timer, readings
}

// In Pulsar #6414, a wheel that ticked each millisecond used a whole hyperthread when idle.
func TestPulsar6414AnIdleTimerDoesNotTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, readings := newCounted(t)
		readings.Store(0)
		settle(24 * time.Hour)
		assert.LessOrEqual(t, readings.Load(), int64(24*4), "an idle day: Start looks once an hour")

		addIn(t, timer, newTask(nil), 30*time.Minute)
		settle(time.Second)
		readings.Store(0)
		settle(time.Hour)
		assert.LessOrEqual(t, readings.Load(), int64(8*4), "one entry: once for each level, once for its worker")
	})
}

// Kafka's reaper wakes up for each bucket whose entries were all cancelled. Here such buckets
// wake the driver once for each shard at most.
func TestKafkaEmptiedBucketsWakeTheDriverOnceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 4
		timer, readings := newCounted(t, WithShards(shards))
		for range 10 {
			var entries []*TaskEntry
			for i := range 1000 {
				tt := newTask(nil)
				tt.inShard(i)
				addIn(t, timer, tt, time.Duration(1000-i)*10*time.Millisecond+time.Second)
				entries = append(entries, &tt.TaskEntry)
			}
			timer.CancelAll(entries)
			settle(time.Millisecond)
			readings.Store(0)
			settle(30 * time.Minute)
			assert.LessOrEqual(t, readings.Load(), int64(4*(shards+1)), "1,000 empty buckets")
		}
	})
}

// Entries that are due when they are added concern the workers only.
func TestTheDriverSleepsWhileWorkersRunWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, readings := newCounted(t, WithShards(1))
		addIn(t, timer, newTask(nil), time.Hour)
		settle(2 * youngFor)
		readings.Store(0)
		const n = 100
		for range n {
			addIn(t, timer, newTask(nil), 0)
			synctest.Wait()
		}
		assert.LessOrEqual(t, readings.Load(), int64(n), "a worker reads the clock once for each")
	})
}

func TestAnEarlierDeadlineWakesTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		var mu sync.Mutex
		var at []time.Duration
		add := func(d time.Duration) {
			addIn(t, timer, newTask(func() {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, timer.Now())
			}), d)
			synctest.Wait() // until the driver sleeps
		}
		add(time.Hour)
		add(time.Minute)
		add(time.Second)
		add(5 * time.Second)
		tt := newTask(nil)
		addIn(t, timer, tt, 2*time.Hour)
		synctest.Wait()
		require.True(t, timer.Extend(&tt.TaskEntry, time.Second/2), "so does a deadline that is made earlier")
		settle(time.Second / 2)
		assert.EqualValues(t, 1, tt.runs.Load())
		settle(time.Hour)
		assert.Equal(t, []time.Duration{time.Second, 5 * time.Second, time.Minute, time.Hour}, at)
	})
}

// An entry at the tick that the driver sleeps on, or at a later one, wakes nobody. One at an earlier tick does, once.
func TestOnlyAnEarlierTickWakesTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, readings := newCounted(t, WithShards(2))
		at := timer.read() + 30*time.Millisecond // in the lowest wheel
		add := func(shard int, at time.Duration) (looks int64) {
			tt := newTask(nil)
			tt.inShard(shard)
			readings.Store(0)
			require.NoError(t, timer.AddAt(&tt.TaskEntry, timer.read(), at))
			synctest.Wait() // until the driver sleeps again
			return readings.Load()
		}
		woken := add(0, at)
		require.Positive(t, woken)
		assert.Zero(t, add(0, at), "in the same bucket")
		assert.Zero(t, add(1, at), "in that of another shard")
		assert.Zero(t, add(1, at+time.Millisecond))
		assert.Equal(t, woken, add(1, at-time.Millisecond))
	})
	timer, err := NewSystemTimer(WithShards(1))
	require.NoError(t, err)
	defer timer.Stop()
	// An addition that is not earlier does not even ask.
	timer.wake.Store(int64(6 * time.Millisecond))
	var asked []int64
	timer.clock = spied{timer, timer.read, func(tick int64) { asked = append(asked, tick) }}
	for _, tick := range []time.Duration{6, 5} {
		require.NoError(t, timer.AddAt(&newTask(nil).TaskEntry, 0, tick*time.Millisecond))
	}
	assert.Equal(t, []int64{int64(5 * time.Millisecond)}, asked)
}

// In Tokio #6682, the driver computed the next wake-up with the locks held, but published it
// afterwards. Here many goroutines add entries while the driver is about to sleep.
func TestTokio6682NoWakeUpIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithShards(4))
		for round := range 300 {
			var wg sync.WaitGroup
			var ran atomic.Int32
			for i := range 8 {
				wg.Go(func() {
					for j := range 4 {
						d := time.Duration(1+(i*7+j*13+round)%20) * time.Millisecond
						tt := newTask(nil)
						tt.inShard(i + j)
						tt.f = func() {
							ran.Add(1)
							assert.Less(t, timer.Now()-tt.Deadline(), time.Millisecond, "slept over")
						}
						addIn(t, timer, tt, d)
						if j == 1 {
							time.Sleep(time.Duration(i) * 100 * time.Microsecond)
						}
					}
				})
			}
			wg.Wait()
			settle(30 * time.Millisecond)
			require.EqualValues(t, 32, ran.Load())
		}
	})
}

// A worker puts an extended entry back into the wheel, and the driver wakes up for it.
func TestTheDriverWakesForAnExtendedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		for i := range 50 {
			var at time.Duration
			tt := newTask(func() { at = timer.Now() })
			addIn(t, timer, tt, time.Second)
			want := timer.Now() + time.Second
			for range 1 + i%5 {
				time.Sleep(400 * time.Millisecond)
				want = timer.Now() + time.Duration(1+i)*time.Second/2
				want = max(want, timer.DeadlineOf(&tt.TaskEntry))
				require.True(t, timer.Extend(&tt.TaskEntry, want))
			}
			settle(time.Hour)
			require.Equal(t, want, at.Truncate(time.Millisecond))
		}
	})
}

// A worker finds two entries of one bucket extended, each to a time of its own: the driver wakes for both.
func TestTheDriverWakesForTwoExtendedEntries(t *testing.T) {
	for _, later := range [][2]time.Duration{{5 * time.Second, 2 * time.Second}, {2 * time.Second, 5 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			timer := newSystem(t, WithShards(1))
			var ran [2]time.Duration
			for i := range later {
				tt := newTask(func() { ran[i] = timer.Now() })
				addIn(t, timer, tt, 50*time.Millisecond) // in the lowest wheel: nothing places them before they are due
				require.True(t, timer.Extend(&tt.TaskEntry, later[i]))
			}
			settle(time.Hour)
			got := [2]time.Duration{ran[0].Truncate(time.Millisecond), ran[1].Truncate(time.Millisecond)}
			assert.Equal(t, later, got)
		})
	}
}
