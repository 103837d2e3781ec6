package timer

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In Netty #2651, the wheel referred to a cancelled timeout until its tick came. A timer must
// not refer to an entry that is not scheduled.
func TestNetty2651CancelledAndExpiredEntriesAreCollectable(t *testing.T) {
	for name, end := range map[string]func(m *ManualTimer, e *TaskEntry){
		"cancelled":             func(m *ManualTimer, e *TaskEntry) { m.Cancel(e) },
		"cancelled with others": func(m *ManualTimer, e *TaskEntry) { m.CancelAll([]*TaskEntry{e}) },
		"expired": func(m *ManualTimer, e *TaskEntry) {
			m.Extend(e, m.Now()+time.Second)
			m.AdvanceClock(time.Second)
		},
		"cancelled when due": func(m *ManualTimer, e *TaskEntry) { m.Extend(e, 1); m.Cancel(e) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newManual(t)
			before, after := newTask(nil), newTask(nil)
			addIn(t, m, before, time.Hour)
			object := weakTask(t, m)
			addIn(t, m, after, time.Hour)
			require.NotNil(t, object.Value())
			end(m, &object.Value().TaskEntry)
			assertCollected(t, object)
			assert.Equal(t, 2, m.Pending(), "its neighbours are still there")
			runtime.KeepAlive(m)
		})
	}
}

func TestStoppedHandlesAreCollectable(t *testing.T) {
	timer, err := NewSystemTimer()
	require.NoError(t, err)
	defer timer.Stop()
	payload := func() weak.Pointer[[1024]byte] {
		data := new([1024]byte)
		h, err := timer.AfterFunc(time.Hour, func() { data[0]++ })
		require.NoError(t, err)
		require.True(t, h.Stop())
		return weak.Make(data)
	}()
	assertCollected(t, payload)
}

//go:noinline
func weakTask(t *testing.T, m *ManualTimer) weak.Pointer[testTask] {
	t.Helper()
	tt := newTask(nil)
	addIn(t, m, tt, time.Hour)
	return weak.Make(tt)
}

func assertCollected[T any](t *testing.T, p weak.Pointer[T]) {
	t.Helper()
	for range 10 {
		if runtime.GC(); p.Value() == nil {
			return
		}
	}
	assert.Fail(t, "something still refers to it")
}
