package timer

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// A timer refuses an entry that belongs to another timer, scheduled or not, and neither timer changes.
func TestAnEntryOfAnotherTimerIsRefused(t *testing.T) {
	for name, state := range map[string]func(m *ManualTimer, e *TaskEntry){
		"scheduled": func(*ManualTimer, *TaskEntry) {},
		"due":       func(m *ManualTimer, e *TaskEntry) { m.Extend(e, 0) },
		"expired":   func(m *ManualTimer, e *TaskEntry) { m.AdvanceClock(time.Hour) },
		"cancelled": func(m *ManualTimer, e *TaskEntry) { m.Cancel(e) },
		"unfired":   func(m *ManualTimer, e *TaskEntry) { m.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			first, other := newManual(t, WithMaxPending(9)), newManual(t, WithShards(8), WithMaxPending(9))
			tt, neighbour := newTask(nil), newTask(nil)
			addIn(t, first, tt, time.Minute)
			addIn(t, other, neighbour, time.Minute)
			state(first, &tt.TaskEntry)
			deadline, pending, ran := first.DeadlineOf(&tt.TaskEntry), first.Pending(), tt.runs.Load()

			err := other.AddAt(&tt.TaskEntry, 0, time.Second)
			require.ErrorIs(t, err, ErrScheduled)
			require.ErrorContains(t, err, "another timer")
			untouched(t, other, tt, neighbour)
			other.AdvanceClock(time.Hour)
			assert.Equal(t, ran, tt.runs.Load())
			assert.Equal(t, deadline, first.DeadlineOf(&tt.TaskEntry))
			assert.Equal(t, pending, first.Pending())
			checkInvariants(t, &first.store, func(*entry.Entry) bool { return false })
			if name == "expired" || name == "cancelled" {
				addIn(t, first, tt, time.Minute) // its own timer takes it again
				first.AdvanceClock(time.Minute)
				assert.Equal(t, ran+1, tt.runs.Load())
			}
		})
	}
}

// untouched checks that no method of other but AddAt does anything with tt, which is another timer's.
func untouched(t *testing.T, other *ManualTimer, tt, neighbour *testTask) {
	t.Helper()
	assert.False(t, other.Cancel(&tt.TaskEntry))
	assert.False(t, other.Extend(&tt.TaskEntry, time.Second))
	assert.False(t, other.Extend(&tt.TaskEntry, time.Hour))
	assert.Zero(t, other.DeadlineOf(&tt.TaskEntry))
	assert.Equal(t, 1, other.CancelAll([]*TaskEntry{&tt.TaskEntry, nil, &neighbour.TaskEntry, &tt.TaskEntry}))
	assert.Zero(t, other.Pending())
	checkInvariants(t, &other.store, nil)
}

// An entry that was refused is scheduled nowhere, and Extend does not change that.
func TestARefusedEntryIsScheduledNowhere(t *testing.T) {
	full, stopped := newManual(t, WithMaxPending(1)), newManual(t)
	addIn(t, full, newTask(nil), time.Second)
	stopped.Stop()
	tt := newTask(nil)
	require.ErrorIs(t, stopped.AddAt(&tt.TaskEntry, 0, time.Second), ErrStopped)
	assert.False(t, stopped.Extend(&tt.TaskEntry, time.Minute))
	require.ErrorIs(t, full.AddAt(&tt.TaskEntry, 0, time.Second), ErrFull, "a timer that is stopped does not keep it")
	assert.False(t, full.Extend(&tt.TaskEntry, time.Minute))
	assert.False(t, full.Cancel(&tt.TaskEntry))
	assert.Equal(t, 1, full.Pending())
	full.AdvanceClock(time.Second)
	addIn(t, full, tt, time.Second)
	full.AdvanceClock(time.Second)
	assert.EqualValues(t, 1, tt.runs.Load())
}

// Many goroutines call every method of several timers with the same entries. Each accepted
// entry runs once or is cancelled once, in the timer that was first.
func TestAnEntryIsInOneTimerUnderRace(t *testing.T) {
	timers := [3]*SystemTimer{}
	for i := range timers {
		timers[i] = newSystem(t, WithShards(4), WithMaxPending(100))
	}
	entries := make([]*testTask, 64)
	for i := range entries {
		entries[i] = newTask(nil)
	}
	var accepted, cancelled, refused atomic.Int64
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
					cancelled.Add(int64(n))
				case 3:
					if timer.Cancel(&tt.TaskEntry) {
						cancelled.Add(1)
					}
				default:
					err := timer.AddAt(&tt.TaskEntry, now, now+time.Duration(r.Int64N(int64(10*time.Millisecond))))
					if err == nil {
						accepted.Add(1)
						assert.Same(t, &timer.store, tt.owner.Load())
					} else if tt.owner.Load() != &timer.store {
						refused.Add(1)
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
		checkInvariants(t, &timer.store, nil)
	}
	ran := 0
	for _, tt := range entries {
		ran += int(tt.runs.Load())
	}
	assert.Equal(t, accepted.Load(), int64(ran+pending)+cancelled.Load())
	assert.Positive(t, refused.Load(), "no entry was given to another timer")
}

// operation is an operation that counts how often it was ended.
type operation struct {
	machine.Core
	ended []machine.Outcome
}

func (*operation) TryComplete() bool { return false }
func (*operation) OnComplete()       {}
func (*operation) OnExpiration()     {}

// submit makes o wait in a purgatory, with no timeout, and returns its machine.
func (o *operation) submit(t testing.TB) *machine.Machine {
	t.Helper()
	list := new(machine.List)
	list.Init(func(m *machine.Machine) {
		o.ended = append(o.ended, m.EndsAs())
		m.Settle(nil)
	})
	m := machine.Of(o)
	require.True(t, m.Begin(o, 1, 1<<23-1))
	list.Link(m.First(), m, 0, list.Last())
	m.Release(true)
	return m
}

func TestAnEntryOfAnOperationEndsTheOperation(t *testing.T) {
	m := newManual(t)
	o := &operation{}
	hold := o.submit(t)
	e := taskEntry(hold.Entry())
	assert.Nil(t, taskOf(&e.entry))

	require.NoError(t, m.AddAt(e, 0, time.Second))
	assert.EqualValues(t, 1<<23-1, hold.Owner(), "a timer does not take it over")
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

// untimed returns the entry of an operation that has no timeout: it is pending, and no timer knows it.
func untimed(t testing.TB) (*operation, *TaskEntry) {
	t.Helper()
	o := &operation{}
	return o, taskEntry(o.submit(t).Entry())
}

// No timer knows an operation that was never added.
func TestAnOperationThatWasNeverAddedIsNotScheduled(t *testing.T) {
	for _, used := range []bool{false, true} {
		m := newManual(t)
		if used {
			addIn(t, m, newTask(nil), ms)
			m.AdvanceClock(time.Second)
		}
		_, e := untimed(t)
		assert.False(t, m.Extend(e, time.Hour))
		assert.False(t, m.Cancel(e))
		assert.Zero(t, m.CancelAll([]*TaskEntry{nil, e}))
		assert.Zero(t, m.DeadlineOf(e))
		assert.Zero(t, m.Pending())
		checkInvariants(t, &m.store, nil)
	}
}

// Who has ended operations links them by what the timer used: the timer takes none of them for one of its own.
func TestAnOperationThatIsChainedIsNotScheduled(t *testing.T) {
	m := newManual(t)
	_, e := untimed(t)
	o, next := untimed(t)
	require.NoError(t, m.AddAt(e, 0, time.Second))
	require.True(t, m.Cancel(e))
	(*machine.Machine)(unsafe.Pointer(e)).Chain(machine.Of(o))
	assert.False(t, m.Extend(e, 0))
	assert.False(t, m.Extend(e, time.Hour))
	assert.False(t, m.Cancel(e))
	assert.Zero(t, m.CancelAll([]*TaskEntry{e, next}))
	assert.Zero(t, m.DeadlineOf(e))
	checkInvariants(t, &m.store, nil)
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
	require.True(t, hold.Begin(o, 1, 1<<23-1))
	require.NoError(t, m.AddAt(taskEntry(hold.Entry()), 0, time.Second))
	m.AdvanceClock(time.Second)
	assert.Zero(t, o.ran)
	end, _ := hold.Release(true)
	assert.True(t, end, "it was being tried when its timeout passed")
	assert.Equal(t, machine.Expired, hold.EndsAs())
}
