package timer

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/expiry"
	"github.com/delayedop/purgatory/internal/identity"
)

// A timer refuses an entry of another timer, whatever state the entry is in, and neither
// timer changes.
func TestEntriesOfAnotherTimerAreRefused(t *testing.T) {
	for name, state := range map[string]func(m *ManualTimer, e *TaskEntry){
		"scheduled": func(*ManualTimer, *TaskEntry) {},
		"due":       func(m *ManualTimer, e *TaskEntry) { m.Extend(e, 0) },
		"expired":   func(m *ManualTimer, e *TaskEntry) { m.AdvanceClock(time.Hour) },
		"cancelled": func(m *ManualTimer, e *TaskEntry) { m.Cancel(e) },
	} {
		t.Run(name, func(t *testing.T) {
			first, other := newManual(t, WithMaxPending(9)), newManual(t, WithShards(8), WithMaxPending(9))
			tt, neighbour := newTask(nil), newTask(nil)
			addIn(t, first, tt, time.Minute)
			addIn(t, other, neighbour, time.Minute)
			state(first, &tt.TaskEntry)
			deadline, pending := first.DeadlineOf(&tt.TaskEntry), first.Pending()

			err := other.AddAt(&tt.TaskEntry, 0, time.Second)
			require.ErrorIs(t, err, ErrForeign)
			assert.Contains(t, err.Error(), fmt.Sprintf("timer %d, and this is timer %d", first.id, other.id))
			assert.False(t, other.Cancel(&tt.TaskEntry))
			assert.False(t, other.Extend(&tt.TaskEntry, time.Second))
			assert.False(t, other.Extend(&tt.TaskEntry, time.Hour))
			assert.Zero(t, other.DeadlineOf(&tt.TaskEntry))
			assert.Equal(t, 1, other.CancelAll([]*TaskEntry{&tt.TaskEntry, nil, &neighbour.TaskEntry, &tt.TaskEntry}))

			assert.Equal(t, deadline, first.DeadlineOf(&tt.TaskEntry))
			assert.Equal(t, pending, first.Pending())
			assert.Zero(t, other.Pending())
			checkInvariants(t, &first.store, func(*TaskEntry) bool { return false })
			checkInvariants(t, &other.store, nil)
			first.AdvanceClock(0)
			if name == "expired" || name == "cancelled" {
				addIn(t, first, tt, time.Minute) // its own timer accepts it again
			}
		})
	}
}

// An entry that was refused belongs to no timer: another timer accepts it.
func TestARefusedEntryMayGoToAnotherTimer(t *testing.T) {
	full, stopped, other := newManual(t, WithMaxPending(1)), newManual(t), newManual(t)
	addIn(t, full, newTask(nil), time.Second)
	stopped.Stop()
	tt := newTask(nil)
	require.ErrorIs(t, full.AddAt(&tt.TaskEntry, 0, time.Second), ErrFull)
	require.ErrorIs(t, stopped.AddAt(&tt.TaskEntry, 0, time.Second), ErrStopped)
	assert.False(t, full.Cancel(&tt.TaskEntry))
	addIn(t, other, tt, time.Second)
	require.ErrorIs(t, full.AddAt(&tt.TaskEntry, 0, time.Second), ErrForeign)
}

// Many goroutines call every method of several timers with the same entries. Each accepted
// entry runs once or is cancelled once, and stays with the timer that first accepted it.
func TestAnEntryStaysWithItsTimerUnderRace(t *testing.T) {
	timers := [3]*SystemTimer{}
	for i := range timers {
		timers[i] = newSystem(t, WithShards(4), WithMaxPending(100))
	}
	entries := make([]*testTask, 64)
	for i := range entries {
		entries[i] = newTask(nil)
	}
	var mu sync.Mutex
	accepted, cancelled := 0, 0
	acceptedBy := map[*testTask]map[*SystemTimer]bool{}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 3000 {
				timer, tt := timers[r.IntN(len(timers))], entries[r.IntN(len(entries))]
				now := timer.Now()
				switch r.IntN(6) {
				case 0:
					timer.Extend(&tt.TaskEntry, now+time.Duration(r.Int64N(int64(10*time.Second))))
				case 1:
					timer.DeadlineOf(&tt.TaskEntry)
				case 2:
					n := timer.CancelAll([]*TaskEntry{&tt.TaskEntry, &entries[r.IntN(len(entries))].TaskEntry})
					mu.Lock()
					cancelled += n
					mu.Unlock()
				case 3:
					if timer.Cancel(&tt.TaskEntry) {
						mu.Lock()
						cancelled++
						mu.Unlock()
					}
				default:
					if timer.AddAt(&tt.TaskEntry, now, now+time.Duration(r.Int64N(int64(10*time.Millisecond)))) == nil {
						mu.Lock()
						accepted++
						if acceptedBy[tt] == nil {
							acceptedBy[tt] = map[*SystemTimer]bool{}
						}
						acceptedBy[tt][timer] = true
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	pending := 0
	for _, timer := range timers {
		pending += len(timer.Stop())
		for !timer.Idle() {
			time.Sleep(time.Millisecond)
		}
	}
	ran := 0
	for _, tt := range entries {
		ran += int(tt.runs.Load())
		assert.LessOrEqual(t, len(acceptedBy[tt]), 1, "an entry in several timers")
	}
	assert.Equal(t, accepted, ran+cancelled+pending)
}

// owner is an object that embeds its entry, as an operation does.
type owner struct{ TaskEntry }

func TestAnEntryOfAnOperationEndsTheOperation(t *testing.T) {
	before := expiry.Expired
	defer func() { expiry.Expired = before }()
	var ended []any
	expiry.Expired = func(o any) { ended = append(ended, o) }

	m := newManual(t)
	var o owner
	assert.Nil(t, o.Owner())
	assert.Zero(t, identity.In(o.Word().Load()), "never bound")
	o.Word().Store(o.OperationBinding(1<<25 - 1))
	o.SetOwner(&o)
	assert.Same(t, &o, o.Owner())
	assert.Nil(t, o.Task())
	assert.EqualValues(t, 1<<25-1, identity.In(o.Word().Load()))
	assert.Less(t, m.shardOf(&o.TaskEntry).bit, uint64(2))

	require.NoError(t, m.AddAt(&o.TaskEntry, 0, time.Second))
	assert.EqualValues(t, 1<<25-1, identity.In(o.Word().Load()), "a timer does not take it over")
	require.ErrorIs(t, m.AddAt(&o.TaskEntry, 0, time.Second), ErrScheduled)
	assert.Equal(t, time.Second, m.DeadlineOf(&o.TaskEntry))
	assert.True(t, m.Extend(&o.TaskEntry, 2*time.Second))
	assert.True(t, m.Cancel(&o.TaskEntry))
	require.NoError(t, m.AddAt(&o.TaskEntry, 0, time.Second))
	m.AdvanceClock(time.Second)
	assert.Equal(t, []any{&o}, ended)
	require.NoError(t, m.AddAt(&o.TaskEntry, m.Now(), time.Hour))
	assert.Empty(t, m.Stop(), "an operation is no task")

	tt := newTask(nil)
	assert.Same(t, tt, tt.Task())
	addIn(t, newManual(t), tt, 1)
	assert.Same(t, tt, tt.Owner())
}
