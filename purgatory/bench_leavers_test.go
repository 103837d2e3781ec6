package purgatory_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// BenchmarkBounds is an operation's life on all processors at once, each on a key of its own, beside the bounds:
// the number of all pending operations is one word that all processors write.
//
//	go test -run '^$' -bench Bounds -cpu 1,2 ./purgatory
func BenchmarkBounds(b *testing.B) {
	for _, c := range []struct {
		name    string
		options []purgatory.Option
	}{
		{"none", nil},
		{"all", []purgatory.Option{purgatory.WithMaxPending(1 << 20)}},
		{"key", []purgatory.Option{purgatory.WithMaxPendingPerKey(1 << 20)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, err := purgatory.New[int64]("bench", c.options...)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			var keys atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				var state benchState
				key := keys.Add(1)
				for pb.Next() {
					if _, err := p.TryCompleteElseWatch(&benchOperation{state: &state}, hour, key); err != nil {
						b.Error(err)
						return
					}
					state.ready = true
					p.CheckAndComplete(key)
					state.ready = false
				}
			})
		})
	}
}

// BenchmarkItemAmongDead is a check in order for one item that 1,000 waits whose contexts have ended stand before:
// it comes before any of their goroutines has run. So there is one processor.
//
//	go test -run '^$' -bench ItemAmongDead ./purgatory
func BenchmarkItemAmongDead(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const dead = 1_000
	p, err := purgatory.New[int]("line", purgatory.WithFirstInFirstOut())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	items := 0
	take := func() bool {
		if items == 0 {
			return false
		}
		items--
		return true
	}
	var took time.Duration
	for range b.N {
		ctx, leave := context.WithCancel(b.Context())
		var all sync.WaitGroup
		wait := func(ctx context.Context) {
			waiting := p.NumDelayed()
			all.Go(func() { _ = p.Await(ctx, hour, take, 0) })
			for p.NumDelayed() == waiting {
				runtime.Gosched()
			}
		}
		for range dead {
			wait(ctx)
		}
		wait(context.Background())
		leave()
		items++
		began := time.Now()
		ended := p.CheckAndCompleteInOrder(0)
		took += time.Since(began)
		if ended != 1 || items != 0 {
			b.Fatalf("the check has ended %d, and left %d items", ended, items)
		}
		all.Wait()
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*dead), "ns/dead")
}
