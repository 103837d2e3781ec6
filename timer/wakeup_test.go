package timer

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countingClock makes timer's driver and workers count their readings of the clock.
// A driver reads it at most three times for each time that it wakes up. Call it
// before the timer is started.
func countingClock(timer *SystemTimer) *atomic.Int64 {
	n := new(atomic.Int64)
	timer.now = func() time.Duration { n.Add(1); return timer.Now() }
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

// A wheel that ticked each millisecond cost a whole hyperthread when idle.
func TestPulsar6414NoEmptyTicking(t *testing.T) {
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

// Each bucket that cancelling had emptied woke the reaper when its time came.
func TestKafkaEmptiedBucketsWakeTheDriverOnceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 4
		timer, readings := newCounted(t, WithShards(shards))
		for range 10 {
			var entries []*TaskEntry
			for i := range 1000 {
				tt := newTask(nil)
				tt.where = uint32(i)
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
			synctest.Wait() // the driver sleeps on it
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

// The next wake-up was computed under the locks, but published after them. Many
// add, while the driver is awake and about to sleep.
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
						tt.where = uint32(i + j)
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

// The same, aimed at the instant in which the driver looks for its next wake-up: it
// has just been woken by one entry and another is added in the first shard that it
// looks at, to expire before everything that it has seen.
func TestTokio6682NothingIsSleptOverWhenAddedAsTheDriverWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithShards(64))
		far := newTask(nil)
		addIn(t, timer, far, 1000*time.Hour)
		for range 500 {
			first, second := newTask(nil), newTask(nil)
			first.where, second.where = 63, 0
			var at time.Duration
			second.f = func() { at = timer.Now() }
			addIn(t, timer, first, 2*ms)
			time.Sleep(timer.roundedUp(timer.DeadlineOf(&first.TaskEntry)) - timer.Now()) // as the driver does
			addIn(t, timer, second, ms)
			settle(3 * ms)
			require.Less(t, at-timer.DeadlineOf(&second.TaskEntry), ms)
			require.NotZero(t, at, "slept over")
		}
	})
}

// An entry whose deadline a worker finds extended goes back into the wheel, and the
// driver has to hear of it.
func TestExtendedEntryIsSleptOnAgain(t *testing.T) {
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

// The runtime may let the driver oversleep. Who adds something then, and has a clock that
// says so, has somebody stand in for it; who adds in time does not.
func TestADriverThatOversleepsIsStoodInFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, readings := newCounted(t, WithShards(1)) // in another shard the hour may fall into an earlier bucket
		const tick = time.Millisecond
		addIn(t, timer, newTask(nil), 50*tick) // due at tick 51, for the clock is past 0
		synctest.Wait()
		add := func(now time.Duration) (called bool) {
			readings.Store(0)
			require.NoError(t, timer.AddAt(&newTask(nil).TaskEntry, now, time.Hour))
			synctest.Wait()
			return readings.Load() > 0
		}
		assert.False(t, add(0))
		assert.False(t, add(51*tick+tick/4), "it has that long to wake up")
		assert.True(t, add(51*tick+tick/4+1))
		assert.True(t, add(51*tick+tick/4+1), "there was nothing to do yet, and it sleeps on")
		settle(2 * time.Second)
		addIn(t, timer, newTask(nil), time.Hour)
		synctest.Wait()
		assert.False(t, add(2*youngFor+tick), "it sleeps until it has to place the young")
		assert.True(t, timer.Idle())
	})
}

// asleep makes timer, which nobody drives, look like one whose driver sleeps until then.
func asleep(timer *SystemTimer, until time.Duration) { timer.overdue.Store(timer.late(int64(until))) }

func TestAStandInDoesWhatIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer(WithShards(4))
		require.NoError(t, err)
		defer timer.Stop()
		readings := countingClock(timer)
		task := func(d time.Duration, shard uint32) *testTask {
			tt := newTask(nil)
			tt.where = shard
			addIn(t, timer, tt, d)
			return tt
		}
		first, second, third := task(10*ms, 0), task(20*ms, 1), task(30*ms, 2)
		asleep(timer, 10*ms)
		settle(10 * ms)
		task(time.Hour, 3)
		synctest.Wait()
		assert.Zero(t, first.runs.Load(), "the driver has a moment left")

		settle(ms)
		task(time.Hour, 3)
		synctest.Wait()
		assert.EqualValues(t, 1, first.runs.Load())
		assert.Zero(t, second.runs.Load())

		settle(ms)
		readings.Store(0)
		task(time.Hour, 3)
		synctest.Wait()
		assert.Zero(t, readings.Load(), "nothing is overdue any more")

		settle(9 * ms)
		task(time.Hour, 3)
		synctest.Wait()
		assert.EqualValues(t, 1, second.runs.Load(), "the driver has slept on")

		timer.overdue.Store(never) // it is awake
		settle(10 * ms)
		task(time.Hour, 3)
		synctest.Wait()
		timer.callStandIn(int64(20 * ms)) // by who has read overdue before
		synctest.Wait()
		assert.Zero(t, third.runs.Load(), "and it is its own affair when it goes on")
		assert.True(t, timer.AdvanceClock(0))
		synctest.Wait()
		assert.EqualValues(t, 1, third.runs.Load())
		assert.True(t, timer.Idle())
	})
}

func TestNobodyStandsInForADriverThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		defer timer.Stop()
		due := newTask(nil)
		addIn(t, timer, due, 5*time.Millisecond)
		assert.False(t, timer.AdvanceClock(time.Millisecond))
		settle(10 * time.Millisecond)
		addIn(t, timer, newTask(nil), time.Hour)
		synctest.Wait()
		assert.Zero(t, due.runs.Load(), "nobody drives")
	})
}

// The driver may wake up while somebody stands in for it. What it has said of itself stays.
func TestAStandInDoesNotPutTheDriverToSleep(t *testing.T) {
	timer, err := NewSystemTimer()
	require.NoError(t, err)
	defer timer.Stop()
	addIn(t, timer, newTask(nil), time.Hour)
	timer.standIns.Add(1)
	assert.False(t, timer.Idle(), "one is under way")
	timer.standIn(5) // called for when overdue was 5
	assert.EqualValues(t, never, timer.overdue.Load())
	assert.True(t, timer.Idle())
}

// Who is called while somebody flushes leaves that to them, and is called again if the driver sleeps on.
func TestStandInsDoNotFlushTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer(WithShards(1))
		require.NoError(t, err)
		defer timer.Stop()
		due := newTask(nil)
		addIn(t, timer, due, time.Millisecond)
		asleep(timer, time.Millisecond)
		settle(2 * time.Millisecond)
		timer.flushing.Lock()
		addIn(t, timer, newTask(nil), time.Hour)
		synctest.Wait()
		timer.flushing.Unlock()
		assert.Zero(t, due.runs.Load())
		addIn(t, timer, newTask(nil), time.Hour)
		synctest.Wait()
		assert.Zero(t, due.runs.Load(), "that was a moment ago")
		settle(time.Millisecond)
		addIn(t, timer, newTask(nil), time.Hour)
		synctest.Wait()
		assert.EqualValues(t, 1, due.runs.Load())
	})
}

// What a stand-in calls of the user's may be broken.
func TestAStandInOutlivesItsExecutor(t *testing.T) {
	for name, broken := range map[string]func(func()) error{
		"panic":  func(func()) error { panic("broken") },
		"goexit": func(func()) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer, err := NewSystemTimer(WithShards(1), WithExecutor(broken), WithPanicHandler(func(any, []byte) {}))
				require.NoError(t, err)
				defer timer.Stop()
				addIn(t, timer, newTask(nil), time.Millisecond)
				asleep(timer, time.Millisecond)
				settle(2 * time.Millisecond)
				addIn(t, timer, newTask(nil), time.Hour)
				synctest.Wait()
				assert.Zero(t, timer.standIns.Load())
				require.True(t, timer.flushing.TryLock(), "it has let go")
				timer.flushing.Unlock()
			})
		})
	}
}
