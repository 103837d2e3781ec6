package timer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/require"
)

// lastTime is where the clock stops.
const lastTime = Never - 1

// model runs a ManualTimer beside a plain list of deadlines. It checks the timer's structure
// after every step. It checks every expiry as it happens: once, in the right tick, and not
// a nanosecond early.
type model struct {
	t     testing.TB
	timer *ManualTimer
	tick  int64
	items []*modelItem
	limit int // the limit of pending entries, 0: none

	now, target time.Duration
	fired       int
}

// modelItem is an entry and its state in the model.
type modelItem struct {
	TaskEntry
	m         *model
	id        int
	scheduled bool
	deadline  time.Duration
	surface   time.Duration // when its bucket expires; the time of its addition if it was due then
	extended  bool          // it was placed by an earlier deadline, a tick or more before
	onFire    func(*modelItem)
}

func newModel(t testing.TB, items int, start time.Duration, opts ...Option) *model {
	t.Helper()
	mt, err := NewManualTimer(append(opts, WithPanicHandler(func(any, []byte) {}))...)
	require.NoError(t, err)
	m := &model{t: t, timer: mt, tick: mt.tick, limit: int(mt.maxPending)}
	for id := range items {
		it := &modelItem{m: m, id: id}
		it.Bind(it)
		it.inShard(id) // spread over the shards, independent of addresses
		m.items = append(m.items, it)
	}
	m.advance(start)
	return m
}

// roundUp returns the end of d's tick, or MaxInt64 if that overflows.
func (m *model) roundUp(d time.Duration) time.Duration {
	ticks := (int64(d)-1)/m.tick + 1
	if ticks > math.MaxInt64/m.tick {
		return math.MaxInt64
	}
	return time.Duration(ticks * m.tick)
}

// due returns the time at which it must run.
func (it *modelItem) due() time.Duration {
	if it.deadline <= max(it.surface, 1) {
		return it.surface
	}
	return it.m.roundUp(it.deadline)
}

func (m *model) pending() (n int) {
	for _, it := range m.items {
		if it.scheduled {
			n++
		}
	}
	return n
}

func (m *model) require(ok bool, what string, args ...any) {
	if !ok {
		m.t.Helper()
		require.Fail(m.t, fmt.Sprintf(what, args...))
	}
}

// RunTask checks that the item is scheduled and must run now.
func (it *modelItem) RunTask(e *TaskEntry) {
	m := it.m
	m.now = m.timer.Now()
	m.require(e == &it.TaskEntry, "item %d ran with another's entry", it.id)
	m.require(it.scheduled, "item %d ran and was not scheduled", it.id)
	m.require(m.now >= it.deadline || m.now == 0 && it.deadline == 1, "item %d: early, at %d, deadline %d", it.id, m.now, it.deadline)
	m.require(m.now == it.due(), "item %d ran at %d, was due at %d (deadline %d)", it.id, m.now, it.due(), it.deadline)
	m.require(it.Deadline() == it.deadline, "item %d: deadline %d, not %d", it.id, it.Deadline(), it.deadline)
	it.scheduled = false
	m.fired++
	if f := it.onFire; f != nil {
		it.onFire = nil
		f(it)
	}
}

func (m *model) add(it *modelItem, deadline time.Duration) {
	want := error(nil)
	switch {
	case it.scheduled:
		want = errScheduled
	case m.limit > 0 && m.pending() >= m.limit:
		want = ErrFull
	}
	err := m.timer.AddAt(&it.TaskEntry, m.now, deadline)
	require.ErrorIs(m.t, err, want)
	if err == nil {
		it.scheduled, it.extended = true, false
		it.deadline = min(max(deadline, 1), Never)
		if it.surface = m.now; deadline > m.now {
			it.surface = m.roundUp(it.deadline)
		}
	}
}

func (m *model) cancel(it *modelItem) {
	m.require(m.timer.Cancel(&it.TaskEntry) == it.scheduled, "item %d: Cancel and scheduled %t", it.id, it.scheduled)
	it.scheduled = false
}

func (m *model) cancelAll(items []*modelItem) {
	n := 0
	var entries []*TaskEntry
	for _, it := range items {
		if it.scheduled {
			n++
		}
		it.scheduled = false
		entries = append(entries, &it.TaskEntry)
	}
	got := m.timer.CancelAll(entries)
	m.require(got == n, "CancelAll cancelled %d of %d", got, n)
}

func (m *model) extend(it *modelItem, deadline time.Duration) {
	m.require(m.timer.Extend(&it.TaskEntry, deadline) == it.scheduled, "item %d: Extend and scheduled %t", it.id, it.scheduled)
	if !it.scheduled {
		return
	}
	atOnce := deadline <= m.now
	deadline = min(max(deadline, 1), Never)
	if int64(deadline-it.deadline) < m.timer.tick {
		it.extended = false
		if it.surface = m.now; !atOnce {
			it.surface = max(m.now, m.roundUp(deadline))
		}
	} else {
		it.extended = true
	}
	it.deadline = deadline
}

// advance moves the clock. Inside a task it only adds to the distance.
func (m *model) advance(d time.Duration) {
	if d < 0 {
		require.Panics(m.t, func() { m.timer.AdvanceClock(d) })
		return
	}
	m.target = min(m.target, lastTime-d) + d
	fired := m.fired
	ran := m.timer.AdvanceClock(d)
	if m.timer.mu.moving {
		m.require(!ran, "AdvanceClock inside AdvanceClock says that something ran")
		return
	}
	m.now = m.timer.Now()
	m.require(ran == (m.fired > fired), "AdvanceClock: %t, and %d ran", ran, m.fired-fired)
	m.require(m.now == m.target, "the clock is at %d, not at %d", m.now, m.target)
	for _, it := range m.items {
		m.require(!it.scheduled || it.due() > m.now, "item %d did not run, was due at %d, now is %d", it.id, it.due(), m.now)
	}
}

// stop stops the timer and checks that it returns the pending tasks.
func (m *model) stop() {
	want := m.pending()
	unfired := m.timer.Stop()
	m.require(len(unfired) == want, "Stop returned %d tasks, %d were pending", len(unfired), want)
	for _, task := range unfired {
		it := task.(*modelItem)
		m.require(it.scheduled, "Stop returned item %d twice, or it was not scheduled", it.id)
		it.scheduled = false
	}
	require.ErrorIs(m.t, m.timer.AddAt(&m.items[0].TaskEntry, m.now, m.now+1), ErrStopped)
	m.check()
}

// check compares the number of pending entries and checks the timer's structure.
func (m *model) check() {
	pending := m.timer.Pending()
	m.require(pending == m.pending(), "%d entries pending, not %d", pending, m.pending())
	checkInvariants(m.t, &m.timer.store, func(e *entry.Entry) bool { return !taskOf(e).(*modelItem).extended })
}
