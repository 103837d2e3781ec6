package purgatory_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// Callbacks of 20 µs each, of a crowd that one check ends: one after the other, and on workers.
// busy is how much of the processors they keep busy.
func BenchmarkCallbacksOfACrowd(b *testing.B) {
	for name, opts := range map[string][]purgatory.Option{
		"on the caller": nil,
		"on workers":    {purgatory.WithCallbacksOnWorkers()},
	} {
		b.Run(name, func(b *testing.B) {
			const crowd, work = 10_000, 20 * time.Microsecond
			p, err := purgatory.New[string]("bench", opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			var ready atomic.Bool
			var all sync.WaitGroup
			meet := func() {
				for began := time.Now(); time.Since(began) < work; {
				}
				all.Done()
			}
			var elapsed time.Duration
			for b.Loop() {
				b.StopTimer()
				ready.Store(false)
				all.Add(crowd)
				for range crowd {
					if _, err := p.TryCompleteElseWatch(&meeting{ready: &ready, meet: meet}, hour, "a"); err != nil {
						b.Fatal(err)
					}
				}
				ready.Store(true)
				b.StartTimer()
				began := time.Now()
				p.CheckAndComplete("a")
				all.Wait()
				elapsed += time.Since(began)
			}
			b.ReportMetric(float64(work)*crowd*float64(b.N)/float64(elapsed), "busy-processors")
		})
	}
}
