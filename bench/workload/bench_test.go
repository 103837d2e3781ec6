package workload

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/bench/timers"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// BenchmarkWheelSize is what the default size of a wheel is chosen by: T1 beside a million, near enough for each timer to be
// placed in a wheel when it is added.
func BenchmarkWheelSize(b *testing.B) {
	for _, size := range []int{20, 64, 256, 512} {
		for _, g := range []int{1, 2} {
			b.Run(fmt.Sprintf("size=%d/G=%d", size, g), func(b *testing.B) {
				t := timers.NewEntry(timer.WithWheelSize(size))
				others := t.Slots(Million, nil)
				defer func() { // the timer itself runs on
					for i := range Million {
						others.Cancel(i)
					}
				}()
				for i, d := range delays(0, Million, time.Minute, 2*time.Minute) {
					others.Add(i, d)
				}
				rest(t)
				perWorker(b, g, newAddCancelLoop(t, g, 1, span{time.Second, 4 * time.Second}).run, 1)
			})
		}
	}
}

// perWorker runs body on g goroutines, about b.N operations in all, in multiples of a chunk.
func perWorker(b *testing.B, g int, body func(worker, n int), chunk int) {
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for w := range g {
		all.Go(func() { body(w, (b.N/g/chunk+1)*chunk) })
	}
	all.Wait()
}

// BenchmarkHeartbeats moves one of 100,000 deadlines to 30 s from now.
func BenchmarkHeartbeats(b *testing.B) {
	const n = 100_000
	beats := func(name string, start func(b *testing.B) (beat func(i int) bool)) {
		b.Run(name, func(b *testing.B) {
			beat, order := start(b), random(1).Perm(n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !beat(order[i%n]) {
					b.Fatal("a session expired within its 30 seconds")
				}
			}
		})
	}
	beats("operation", func(b *testing.B) func(int) bool {
		p, err := purgatory.New[int]("heartbeats")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Close() })
		ops := make([]waiting, n)
		for i := range ops {
			if _, err := p.TryCompleteElseWatch(&ops[i], lifetime, i); err != nil {
				b.Fatal(err)
			}
		}
		rest(new(timers.Rest))
		return func(i int) bool { return p.Extend(&ops[i], lifetime) }
	})
	beats("handle", func(b *testing.B) func(int) bool {
		t := timers.StartSystemTimer()
		b.Cleanup(func() { t.Stop() })
		handles := make([]*timer.Handle, n)
		for i := range handles {
			h, err := t.AfterFunc(lifetime, func() {})
			if err != nil {
				b.Fatal(err)
			}
			handles[i] = h
		}
		rest(new(timers.Rest))
		return func(i int) bool { return handles[i].Extend(lifetime) }
	})
	beats("std-reset", func(b *testing.B) func(int) bool {
		all := make([]*time.Timer, n)
		for i := range all {
			all[i] = time.AfterFunc(lifetime, func() {})
		}
		b.Cleanup(func() {
			for _, t := range all {
				t.Stop()
			}
		})
		return func(i int) bool { return all[i].Reset(lifetime) }
	})
}

// BenchmarkSignal tells that a key has changed, with 64 waiting there whose condition is not met.
func BenchmarkSignal(b *testing.B) {
	const key = "key"
	for _, g := range []int{1, 2} {
		b.Run(fmt.Sprintf("std-cond/G=%d", g), func(b *testing.B) { broadcast(b, g) })
		for name, tell := range map[string]func(*purgatory.DelayedOperationPurgatory[string], *sync.WaitGroup){
			"signal": func(p *purgatory.DelayedOperationPurgatory[string], _ *sync.WaitGroup) { p.Signal(key) },
			"check":  func(p *purgatory.DelayedOperationPurgatory[string], _ *sync.WaitGroup) { p.CheckAndComplete(key) },
			"go-check": func(p *purgatory.DelayedOperationPurgatory[string], stray *sync.WaitGroup) {
				stray.Go(func() { p.CheckAndComplete(key) })
			},
		} {
			b.Run(fmt.Sprintf("%s/G=%d", name, g), func(b *testing.B) {
				p, err := purgatory.New[string]("signals")
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				for range batch {
					if _, err := p.TryCompleteElseWatch(new(waiting), time.Hour, key); err != nil {
						b.Fatal(err)
					}
				}
				var stray sync.WaitGroup
				perWorker(b, g, func(_, n int) {
					for range n {
						tell(p, &stray)
					}
				}, 1)
				b.StopTimer()
				stray.Wait()
			})
		}
	}
}

// broadcast wakes goroutines that wait for a sync.Cond and look at the condition themselves.
func broadcast(b *testing.B, g int) {
	var (
		mu      sync.Mutex
		state   int // guarded by mu
		changed = sync.NewCond(&mu)
		stopped atomic.Bool
		waiting sync.WaitGroup
	)
	for range batch {
		waiting.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for !stopped.Load() {
				changed.Wait()
			}
		})
	}
	perWorker(b, g, func(_, n int) {
		for range n {
			mu.Lock()
			state++
			mu.Unlock()
			changed.Broadcast()
		}
	}, 1)
	b.StopTimer()
	mu.Lock()
	stopped.Store(true)
	mu.Unlock()
	changed.Broadcast()
	waiting.Wait()
}

// waiting is an operation whose condition is never met.
type waiting struct{ operation.DelayedOperation }

func (*waiting) TryComplete() bool { return false }
func (*waiting) OnComplete()       {}
func (*waiting) OnExpiration()     {}
