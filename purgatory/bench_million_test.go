//go:build unix

package purgatory_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// BenchmarkMillionPending registers a million operations under 10,000 keys and ends them, by checks or by their timeouts. It
// reports the bytes of heap and the CPU time of the whole process for each operation.
//
//	go test -run '^$' -bench MillionPending -benchtime 1x -count 4 ./purgatory
func BenchmarkMillionPending(b *testing.B) {
	for _, v := range []struct {
		name string
		opts []purgatory.Option
	}{
		{"off", nil},
		{"diagnostics", []purgatory.Option{purgatory.WithDiagnostics()}},
	} {
		b.Run(v.name, func(b *testing.B) {
			for _, end := range []string{"check", "expire"} {
				b.Run(end, func(b *testing.B) {
					for b.Loop() {
						benchmarkMillion(b, end == "check", v.opts)
					}
				})
			}
		})
	}
}

func benchmarkMillion(b *testing.B, check bool, opts []purgatory.Option) {
	clock, err := timer.NewManualTimer()
	if err != nil {
		b.Fatal(err)
	}
	p, err := purgatory.New[string]("bench", append([]purgatory.Option{purgatory.WithTimer(clock)}, opts...)...)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	keys := benchKeys(10_000)
	const million = 1_000_000
	var state benchState
	heap, began := heapInUse(), cpuTime()
	for i := range million {
		op := &benchOperation{state: &state}
		if _, err := p.TryCompleteElseWatch(op, 30*time.Second+time.Duration(i%1000)*time.Millisecond, keys[i%len(keys)]); err != nil {
			b.Fatal(err)
		}
	}
	registered := cpuTime() - began
	b.ReportMetric(float64(heapInUse()-heap)/million, "B/pending")
	b.ReportMetric(float64(registered)/million, "ns/register")
	state.ready, began = check, cpuTime()
	if check {
		for _, key := range keys {
			p.CheckAndComplete(key)
		}
	} else {
		for range 350 {
			p.AdvanceClock(100 * time.Millisecond)
		}
	}
	b.ReportMetric(float64(cpuTime()-began)/million, "ns/end")
	if n := p.NumDelayed(); n != 0 {
		b.Fatalf("%d operations still wait", n)
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cpuTime returns how long the process has run on the CPU, the garbage collector included. It depends less than the time
// of day on what else the machine does.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
