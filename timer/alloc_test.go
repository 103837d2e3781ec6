package timer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func nothing() {}

// After the wheels have grown their levels, adding, cancelling, extending and expiring an
// entry allocates nothing.
func TestNoAllocations(t *testing.T) {
	m := newManual(t, WithShards(4), WithMaxPending(1000))
	tasks := make([]*testTask, 200)
	entries := make([]*TaskEntry, len(tasks))
	for i := range tasks {
		tasks[i] = newTask(nil)
		entries[i] = &tasks[i].TaskEntry
	}
	add := func() {
		for i, e := range entries {
			_ = m.AddAt(e, m.Now(), m.Now()+time.Duration(i*i)*time.Millisecond)
		}
	}
	steady := func(what string, f func()) {
		t.Helper()
		f()
		assert.Zero(t, testing.AllocsPerRun(20, f), what)
	}
	steady("AddAt, Cancel", func() {
		add()
		for _, e := range entries {
			m.Cancel(e)
		}
	})
	steady("AddAt, CancelAll", func() { add(); m.CancelAll(entries) })
	steady("AddAt, Extend, expiry", func() {
		add()
		for i, e := range entries {
			m.Extend(e, m.Now()+time.Duration(i)*time.Second)
		}
		m.AdvanceClock(time.Hour)
	})

	assert.InDelta(t, 1, testing.AllocsPerRun(100, func() {
		h, _ := m.AfterFunc(time.Minute, nothing)
		h.Stop()
	}), 0, "AfterFunc: the handle")

	timer, err := NewSystemTimer()
	require.NoError(t, err)
	defer timer.Stop()
	holdWorkers(t, timer) // this goroutine does the work of a worker
	for i := range entries {
		entries[i] = &newTask(nil).TaskEntry
	}
	steady("AddAt, expiry of a SystemTimer", func() {
		for _, e := range entries {
			_ = timer.AddAt(e, timer.Now(), timer.Now())
		}
		timer.AdvanceClock(0)
		for timer.runDue() {
		}
	})
}
