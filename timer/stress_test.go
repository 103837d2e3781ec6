package timer

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ledger counts successful additions and how they ended.
type ledger struct {
	added, ran, cancelled, unfired atomic.Int64
}

func (l *ledger) check(t *testing.T) {
	t.Helper()
	assert.Equal(t, l.added.Load(), l.ran.Load()+l.cancelled.Load()+l.unfired.Load(),
		"added %d, ran %d, cancelled %d, unfired %d", l.added.Load(), l.ran.Load(), l.cancelled.Load(), l.unfired.Load())
}

// Many goroutines add, cancel and extend few shared entries while these expire. Every
// successful AddAt ends once.
func TestStressConservation(t *testing.T) {
	for _, shards := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			timer := newSystem(t, WithShards(shards), WithWheelSize(4), WithWorkers(4), WithMaxPending(1000))
			var l ledger
			tasks := make([]*testTask, 40)
			for i := range tasks {
				tasks[i] = newTask(nil)
				tasks[i].inShard(i)
				tasks[i].f = func() {
					l.ran.Add(1)
					if l.ran.Load()%4 == 0 && timer.AddAt(&tasks[i].TaskEntry, timer.Now(), timer.Now()+3*time.Millisecond) == nil {
						l.added.Add(1)
					}
				}
			}
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(g), uint64(shards)))
					for range 500 {
						tt := tasks[rng.IntN(len(tasks))]
						now := timer.Now()
						d := time.Duration(rng.IntN(1+1<<rng.IntN(9))-1) * 100 * time.Microsecond
						switch rng.IntN(8) {
						case 0, 1, 2:
							if timer.AddAt(&tt.TaskEntry, now, now+d) == nil {
								l.added.Add(1)
							}
						case 3:
							if timer.Cancel(&tt.TaskEntry) {
								l.cancelled.Add(1)
							}
						case 4:
							from := rng.IntN(len(tasks) - 4)
							var some []*TaskEntry
							for _, tt := range tasks[from : from+4] {
								some = append(some, &tt.TaskEntry)
							}
							l.cancelled.Add(int64(timer.CancelAll(some)))
						case 5, 6:
							timer.Extend(&tt.TaskEntry, now+d)
						case 7:
							time.Sleep(d / 4)
						}
					}
				})
			}
			wg.Wait()
			settle(time.Minute)
			assert.Zero(t, timer.Pending())
			checkInvariants(t, &timer.store, nil)
			assert.Positive(t, l.ran.Load())
			assert.Positive(t, l.cancelled.Load())
			l.check(t)
		})
	}
}

// Several goroutines add, cancel and extend the same entry.
func TestTokio8252CancelRacingWithInsert(t *testing.T) {
	m := newManual(t, WithShards(2))
	var l ledger
	tt := newTask(nil)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := range 5000 {
				now := m.Now()
				if m.AddAt(&tt.TaskEntry, now, now+time.Duration(i%3)*time.Millisecond) == nil {
					l.added.Add(1)
				}
			}
		})
		wg.Go(func() {
			for range 5000 {
				if m.Cancel(&tt.TaskEntry) {
					l.cancelled.Add(1)
				}
				if m.Extend(&tt.TaskEntry, m.Now()+time.Millisecond) && m.Extend(&tt.TaskEntry, m.Now()) {
					continue
				}
			}
		})
	}
	wg.Go(func() {
		for range 500 {
			m.AdvanceClock(time.Millisecond)
		}
	})
	wg.Wait()
	m.AdvanceClock(time.Hour)
	l.ran.Store(int64(tt.runs.Load()))
	l.check(t)
	assert.Zero(t, m.Pending())
	checkInvariants(t, &m.store, nil)
}

// An AddAt that races with Stop is refused, or Stop returns its task, or the task runs.
func TestNetty366StopRacingAdd(t *testing.T) {
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			timer := newSystem(t, WithShards(8))
			var l ledger
			var wg sync.WaitGroup
			begin := make(chan struct{})
			for g := range 4 {
				wg.Go(func() {
					<-begin
					for i := range 100 {
						tt := newTask(func() { l.ran.Add(1) })
						tt.inShard(g + i)
						d := time.Hour
						if i%4 == 0 {
							d = 0
						}
						err := timer.AddAt(&tt.TaskEntry, timer.Now(), timer.Now()+d)
						if err == nil {
							l.added.Add(1)
						} else {
							assert.ErrorIs(t, err, ErrStopped)
						}
					}
				})
			}
			for range 2 {
				wg.Go(func() { <-begin; l.unfired.Add(int64(len(timer.Stop()))) })
			}
			close(begin)
			wg.Wait()
			settle(2 * time.Hour)
			assert.Zero(t, timer.Pending())
			checkInvariants(t, &timer.store, nil)
			l.check(t)
		})
	}
}

// One goroutine claims a due entry while another one extends it repeatedly, by 1 ns, to
// deadlines in the past. The entry expires with the deadline of the last successful Extend.
func TestExtendAgainstClaimHasOneWinner(t *testing.T) {
	m := newManual(t)
	m.AdvanceClock(time.Hour)
	tt := newTask(nil)
	var wg sync.WaitGroup
	for range 500 {
		require.NoError(t, m.AddAt(&tt.TaskEntry, m.Now(), 0))
		last := time.Duration(1)
		begun := make(chan struct{})
		wg.Go(func() {
			close(begun)
			for last < 1_000_000 && m.Extend(&tt.TaskEntry, last+1) {
				last++
			}
		})
		<-begun
		runtime.Gosched()
		m.AdvanceClock(0)
		wg.Wait()
		require.Equal(t, last, tt.Deadline(), "a successful Extend had no effect")
	}
	assert.EqualValues(t, 500, tt.runs.Load())
	checkInvariants(t, &m.store, nil)
}

func TestHandlesUnderStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		var runs, starts atomic.Int64
		var handles []*Handle
		for i := range 10 {
			h, err := timer.AfterFunc(time.Duration(i)*time.Millisecond, func() { runs.Add(1) })
			require.NoError(t, err)
			starts.Add(1)
			handles = append(handles, h)
		}
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for range 1000 {
					h := handles[rng.IntN(len(handles))]
					d := time.Duration(rng.IntN(30)) * 100 * time.Microsecond
					switch rng.IntN(4) {
					case 0:
						if h.Stop() {
							starts.Add(-1)
						}
					case 1:
						pending, err := h.Reset(d)
						assert.NoError(t, err)
						if !pending {
							starts.Add(1)
						}
					case 2:
						h.Extend(d)
					case 3:
						time.Sleep(d)
						_ = h.Cancelled() && h.Expired() // for the race detector
					}
				}
			})
		}
		wg.Wait()
		settle(time.Minute)
		assert.Equal(t, starts.Load(), runs.Load())
		assert.Zero(t, timer.Pending())
	})
}
