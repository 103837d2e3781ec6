package timer

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
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
			checkInvariants(t, &first.store, func(*entry.Entry) bool { return false })
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
		require.Eventually(t, timer.Idle, time.Minute, time.Millisecond)
	}
	ran := 0
	for _, tt := range entries {
		ran += int(tt.runs.Load())
		assert.LessOrEqual(t, len(acceptedBy[tt]), 1, "an entry in several timers")
	}
	assert.Equal(t, accepted, ran+cancelled+pending)
}

// operation is an operation that counts how often it was ended.
type operation struct {
	machine.Core
	ended []machine.Outcome
}

func (*operation) TryComplete() bool { return false }
func (*operation) OnComplete()       {}
func (*operation) OnExpiration()     {}

// End implements [machine.ListOwner].
func (o *operation) End(m *machine.Machine, outcome machine.Outcome, _ *error) {
	o.ended = append(o.ended, outcome)
	new(machine.Wishes).Settle([]*machine.Machine{m}, []machine.Outcome{outcome}, nil)
}

func TestAnEntryOfAnOperationEndsTheOperation(t *testing.T) {
	m := newManual(t)
	o := &operation{}
	var list machine.List
	list.Init(o)
	hold := machine.Of(o)
	require.True(t, hold.Begin(o, 1, 1<<25-1))
	list.Link(hold, 0, 0, nil)
	hold.Release(true)
	e := taskEntry(hold.Entry())
	assert.Nil(t, e.Task())

	require.NoError(t, m.AddAt(e, 0, time.Second))
	assert.EqualValues(t, 1<<25-1, hold.Owner(), "a timer does not take it over")
	require.ErrorIs(t, m.AddAt(e, 0, time.Second), ErrScheduled)
	assert.Equal(t, time.Second, m.DeadlineOf(e))
	assert.True(t, m.Extend(e, 2*time.Second))
	assert.True(t, m.Cancel(e))
	require.NoError(t, m.AddAt(e, 0, time.Second))
	m.AdvanceClock(time.Second)
	assert.Equal(t, []machine.Outcome{machine.Expired}, o.ended)
	require.NoError(t, m.AddAt(e, m.Now(), time.Hour))
	assert.Empty(t, m.Stop(), "an operation is no task")
}

// ticking is an operation with a method that a Task has.
type ticking struct {
	operation
	ran int
}

func (o *ticking) RunTask(*TaskEntry) { o.ran++ }

func TestAnOperationIsNoTaskWhateverItsMethods(t *testing.T) {
	m := newManual(t)
	o := &ticking{}
	hold := machine.Of(o)
	require.True(t, hold.Begin(o, 1, 1<<25-1))
	require.NoError(t, m.AddAt(taskEntry(hold.Entry()), 0, time.Second))
	m.AdvanceClock(time.Second)
	assert.Zero(t, o.ran)
	wish, _ := hold.Release(true)
	assert.Equal(t, machine.Expired, wish, "it was being tried when its timeout passed")
}

func TestAnEntryKnowsItsTask(t *testing.T) {
	tt := newTask(nil)
	assert.Same(t, tt, tt.Task())
	addIn(t, newManual(t), tt, 1)
	assert.Same(t, tt, tt.Task())
	assert.Nil(t, new(TaskEntry).Task())
}
