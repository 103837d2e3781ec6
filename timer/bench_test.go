package timer

import (
	"testing"
	"time"
)

// benchTask counts its runs. It is one allocation together with its entry, as an operation
// of a purgatory is.
type benchTask struct {
	TaskEntry
	runs int
}

func (b *benchTask) RunTask(*TaskEntry) { b.runs++ }

func newBenchTask() *benchTask {
	b := &benchTask{}
	b.Bind(b)
	return b
}

// BenchmarkAddCancel adds and cancels a timeout, in this timer and with the runtime's timers.
func BenchmarkAddCancel(b *testing.B) {
	const timeout = 30 * time.Second
	b.Run("wheel", func(b *testing.B) {
		t := newBenchTimer(b)
		e := newBenchTask()
		b.ReportAllocs()
		for b.Loop() {
			now := t.Now()
			_ = t.AddAt(&e.TaskEntry, now, Deadline(now, timeout))
			t.Cancel(&e.TaskEntry)
		}
	})
	b.Run("wheel/new_entry", func(b *testing.B) {
		t := newBenchTimer(b)
		b.ReportAllocs()
		for b.Loop() {
			e := newBenchTask()
			now := t.Now()
			_ = t.AddAt(&e.TaskEntry, now, Deadline(now, timeout))
			t.Cancel(&e.TaskEntry)
		}
	})
	b.Run("wheel/pending=100000", func(b *testing.B) {
		t := newBenchTimer(b)
		tasks := make([]*benchTask, 100_000)
		for i := range tasks {
			tasks[i] = newBenchTask()
			now := t.Now()
			_ = t.AddAt(&tasks[i].TaskEntry, now, Deadline(now, timeout))
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			e := tasks[i*7919%len(tasks)]
			i++
			t.Cancel(&e.TaskEntry)
			now := t.Now()
			_ = t.AddAt(&e.TaskEntry, now, Deadline(now, timeout))
		}
	})
	b.Run("wheel/parallel", func(b *testing.B) {
		t := newBenchTimer(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			e := newBenchTask()
			for pb.Next() {
				now := t.Now()
				_ = t.AddAt(&e.TaskEntry, now, Deadline(now, timeout))
				t.Cancel(&e.TaskEntry)
			}
		})
	})
	b.Run("time.AfterFunc", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			time.AfterFunc(timeout, func() {}).Stop()
		}
	})
}

func newBenchTimer(b *testing.B) *SystemTimer {
	b.Helper()
	t, err := NewSystemTimer()
	if err != nil {
		b.Fatal(err)
	}
	t.Start()
	b.Cleanup(func() { t.Stop() })
	return t
}

// BenchmarkExtend gives a pending entry a later deadline, as a heartbeat does.
func BenchmarkExtend(b *testing.B) {
	t := newBenchTimer(b)
	e := newBenchTask()
	_ = t.AddAt(&e.TaskEntry, 0, time.Hour)
	b.ReportAllocs()
	deadline := time.Hour
	for b.Loop() {
		deadline++
		t.Extend(&e.TaskEntry, deadline)
	}
}

// BenchmarkExpire adds and expires 1,000 entries per round, 100 to a tick.
func BenchmarkExpire(b *testing.B) {
	const entries = 1000
	t, err := NewManualTimer()
	if err != nil {
		b.Fatal(err)
	}
	tasks := make([]*benchTask, entries)
	for i := range tasks {
		tasks[i] = newBenchTask()
	}
	b.ReportAllocs()
	for b.Loop() {
		now := t.Now()
		for i, e := range tasks {
			_ = t.AddAt(&e.TaskEntry, now, now+time.Duration(1+i/100)*100*time.Millisecond)
		}
		t.AdvanceClock(time.Second)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}

// BenchmarkNewSystemTimer measures a timer that is made, stopped and never used.
func BenchmarkNewSystemTimer(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		t, err := NewSystemTimer()
		if err != nil {
			b.Fatal(err)
		}
		t.Stop()
	}
}
