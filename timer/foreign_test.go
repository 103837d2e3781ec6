package timer

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// A timer refuses an entry of another timer, whatever its state, and neither timer changes.
func TestAnEntryOfAnotherTimerIsRefused(t *testing.T) {
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
			if pending > 0 {
				assert.Panics(t, func() { tt.Bind(tt) })
			}

			err := other.AddAt(&tt.TaskEntry, 0, time.Second)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "another timer")
			untouched(t, other, tt, neighbour)
			assert.Equal(t, deadline, first.DeadlineOf(&tt.TaskEntry))
			assert.Equal(t, pending, first.Pending())
			checkInvariants(t, &first.store, func(*entry.Entry) bool { return false })
		})
	}
}

// An idle entry that is bound again goes to the timer to which it is added, and the timer that had it changes it no more.
func TestAnIdleEntryMayGoToAnotherTimer(t *testing.T) {
	for name, idle := range map[string]func(m *ManualTimer, e *TaskEntry){
		"expired":   func(m *ManualTimer, e *TaskEntry) { m.AdvanceClock(time.Hour) },
		"cancelled": func(m *ManualTimer, e *TaskEntry) { m.Cancel(e) },
		"unfired":   func(m *ManualTimer, e *TaskEntry) { m.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			first, other := newManual(t, WithMaxPending(9)), newManual(t, WithShards(8), WithMaxPending(9))
			tt, neighbour := newTask(nil), newTask(nil)
			addIn(t, first, tt, time.Minute)
			addIn(t, other, neighbour, time.Minute)
			idle(first, &tt.TaskEntry)
			ran := tt.runs.Load()
			untouched(t, other, tt, neighbour)

			tt.Bind(tt)
			assert.Zero(t, first.DeadlineOf(&tt.TaskEntry))
			addIn(t, other, tt, 2*time.Minute)
			assert.Equal(t, 2*time.Minute, other.DeadlineOf(&tt.TaskEntry))
			first.AdvanceClock(0)
			assert.Zero(t, first.Pending())
			assert.False(t, first.Cancel(&tt.TaskEntry))
			assert.False(t, first.Extend(&tt.TaskEntry, time.Hour))
			assert.Zero(t, first.CancelAll([]*TaskEntry{&tt.TaskEntry}))
			assert.Zero(t, first.DeadlineOf(&tt.TaskEntry))
			other.AdvanceClock(2 * time.Minute)
			assert.Equal(t, ran+1, tt.runs.Load())
			if name != "unfired" {
				tt.Bind(tt)
				addIn(t, first, tt, time.Minute) // and back
				first.AdvanceClock(time.Minute)
				assert.Equal(t, ran+2, tt.runs.Load())
			}
			checkInvariants(t, &first.store, nil)
			checkInvariants(t, &other.store, nil)
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
	assert.Equal(t, 1, other.CancelAll([]*TaskEntry{&tt.TaskEntry, &neighbour.TaskEntry, &tt.TaskEntry}))
	assert.Zero(t, other.Pending())
	checkInvariants(t, &other.store, nil)
}

// An entry that was refused is scheduled nowhere, and Extend does not change that: another timer accepts it.
func TestARefusedEntryMayGoToAnotherTimer(t *testing.T) {
	full, stopped, other := newManual(t, WithMaxPending(1)), newManual(t), newManual(t)
	addIn(t, full, newTask(nil), time.Second)
	stopped.Stop()
	tt := newTask(nil)
	require.ErrorIs(t, full.AddAt(&tt.TaskEntry, 0, time.Second), ErrFull)
	assert.False(t, full.Extend(&tt.TaskEntry, time.Minute))
	require.ErrorIs(t, stopped.AddAt(&tt.TaskEntry, 0, time.Second), ErrStopped)
	assert.False(t, stopped.Extend(&tt.TaskEntry, time.Minute))
	assert.False(t, full.Cancel(&tt.TaskEntry))
	addIn(t, other, tt, time.Second)
	require.ErrorIs(t, full.AddAt(&tt.TaskEntry, 0, time.Second), errForeign)
	assert.Equal(t, 1, full.Pending())
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
	require.True(t, m.Begin(o, 1<<23-1))
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
	require.ErrorIs(t, m.AddAt(e, 0, time.Second), errScheduled)
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

// The first deadline of an operation that was never added schedules it, on any kind of timer.
func TestTheFirstDeadlineOfAnOperationSchedulesIt(t *testing.T) {
	m := newManual(t, WithMaxPending(1))
	addIn(t, m, newTask(nil), time.Hour)
	m.AdvanceClock(time.Second)
	o, e := untimed(t)
	assert.Zero(t, m.DeadlineOf(e), "it has no timeout")
	assert.True(t, m.Extend(e, 3*time.Second))
	assert.Equal(t, 2, m.Pending())
	checkInvariants(t, &m.store, func(*entry.Entry) bool { return true })
	assert.Equal(t, 3*time.Second, m.DeadlineOf(e))
	assert.True(t, m.Extend(e, 5*time.Second))
	m.AdvanceClock(3*time.Second + 999*ms)
	assert.Empty(t, o.ended, "early")
	m.AdvanceClock(ms)
	assert.Equal(t, []machine.Outcome{machine.Expired}, o.ended)
	assert.False(t, m.Extend(e, time.Hour), "it has expired")
	checkInvariants(t, &m.store, nil)

	o, e = untimed(t)
	assert.True(t, m.Extend(e, 0), "it is due at once")
	m.AdvanceClock(0)
	assert.Equal(t, []machine.Outcome{machine.Expired}, o.ended)

	_, e = untimed(t)
	assert.True(t, m.Extend(e, time.Hour))
	assert.True(t, m.Cancel(e))
	checkInvariants(t, &m.store, nil)
	assert.False(t, m.Extend(new(TaskEntry), time.Hour), "a task has to be added")
}

// The driver sleeps, and the first deadline of an operation wakes it.
func TestTheFirstDeadlineOfAnOperationWakesTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		settle(time.Second)
		o, e := untimed(t)
		assert.True(t, timer.Extend(e, timer.Now()+time.Second))
		settle(time.Second + ms)
		assert.Equal(t, []machine.Outcome{machine.Expired}, o.ended)
	})
}

// An operation that has ended, or whose timer has stopped, gets no deadline any more: it would stay in
// the timer until then.
func TestAnOperationThatHasEndedIsNotScheduled(t *testing.T) {
	for name, end := range map[string]func(m *ManualTimer, e *TaskEntry){
		"cancel":            func(m *ManualTimer, e *TaskEntry) { assert.False(t, m.Cancel(e)) },
		"cancel all":        func(m *ManualTimer, e *TaskEntry) { assert.Zero(t, m.CancelAll([]*TaskEntry{e, e})) },
		"cancel one of all": func(m *ManualTimer, e *TaskEntry) { assert.Zero(t, m.CancelAll([]*TaskEntry{e})) },
		"stop":              func(m *ManualTimer, e *TaskEntry) { assert.Empty(t, m.Stop()) },
	} {
		for _, used := range []bool{false, true} {
			m := newManual(t)
			if used {
				addIn(t, m, newTask(nil), ms)
				m.AdvanceClock(time.Second)
			}
			_, e := untimed(t)
			end(m, e)
			assert.Equal(t, used || name != "stop", m.shards[e.entry.Shard(1)].Load() != nil, "%s: its lock guards the entry", name)
			assert.False(t, m.Extend(e, time.Hour), name)
			assert.False(t, m.Extend(e, Never), name)
			assert.Zero(t, m.Pending(), name)
			checkInvariants(t, &m.store, nil)
		}
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
	require.True(t, hold.Begin(o, 1<<23-1))
	require.NoError(t, m.AddAt(taskEntry(hold.Entry()), 0, time.Second))
	m.AdvanceClock(time.Second)
	assert.Zero(t, o.ran)
	end, _ := hold.Release(true)
	assert.True(t, end, "it was being tried when its timeout passed")
	assert.Equal(t, machine.Expired, hold.EndsAs())
}
