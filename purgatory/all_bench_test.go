package purgatory_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// BenchmarkWakeup is one waiting goroutine that reads a number until it has risen, and
// the goroutine that raises it and waits for the answer: a turn is two switches of
// goroutines and what waiting costs.
//
//	go test -run '^$' -bench 'Wakeup|CheckOfAll|Hint' -benchmem ./purgatory
func BenchmarkWakeup(b *testing.B) {
	b.Run("AwaitRead", func(b *testing.B) {
		p, err := purgatory.New[string]("bench")
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		turns(b, func(state *atomic.Int64, want int64) {
			_, err := purgatory.AwaitRead(context.Background(), p, time.Minute, func(context.Context) (int64, bool, error) {
				v := state.Load()
				return v, v >= want, nil
			}, "key")
			if err != nil {
				b.Error(err)
			}
		}, func() { p.CheckAndComplete("key") })
	})
	b.Run("AwaitValue", func(b *testing.B) {
		p, err := purgatory.New[string]("bench")
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		turns(b, func(state *atomic.Int64, want int64) {
			_, err := purgatory.AwaitValue(context.Background(), p, time.Minute, func() (int64, bool) {
				v := state.Load()
				return v, v >= want
			}, "key")
			if err != nil {
				b.Error(err)
			}
		}, func() { p.CheckAndComplete("key") })
	})
	b.Run("channel and timer", func(b *testing.B) { // one waiter, one key, no context, a channel anew for each wait
		var mu sync.Mutex
		var waiting chan struct{}
		turns(b, func(state *atomic.Int64, want int64) {
			timeout := time.NewTimer(time.Minute)
			defer timeout.Stop()
			for {
				mu.Lock()
				c := make(chan struct{}, 1)
				waiting = c
				mu.Unlock()
				if state.Load() >= want {
					return
				}
				select {
				case <-c:
				case <-timeout.C:
					return
				}
			}
		}, func() {
			mu.Lock()
			if waiting != nil {
				select {
				case waiting <- struct{}{}:
				default:
				}
			}
			mu.Unlock()
		})
	})
	b.Run("sync.Cond", func(b *testing.B) { // which has no timeout, no context, and no keys
		var mu sync.Mutex
		cond := sync.NewCond(&mu)
		turns(b, func(state *atomic.Int64, want int64) {
			mu.Lock()
			for state.Load() < want {
				cond.Wait()
			}
			mu.Unlock()
		}, func() {
			mu.Lock()
			cond.Broadcast()
			mu.Unlock()
		})
	})
}

// turns has a goroutine await each number after the other, and raises it once the
// goroutine has had a chance to sleep.
func turns(b *testing.B, await func(state *atomic.Int64, want int64), wake func()) {
	var state atomic.Int64
	seen := make(chan struct{})
	n := int64(0)
	var stop atomic.Bool
	go func() {
		defer close(seen)
		for want := int64(1); !stop.Load(); want++ {
			await(&state, want)
			seen <- struct{}{}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		runtime.Gosched()
		n++
		state.Store(n)
		wake()
		<-seen
	}
	stop.Store(true)
	state.Store(n + 1)
	wake()
	<-seen
	<-seen
}

// BenchmarkCheckOfAll re-checks operations none of whose conditions is met, each under a
// key of its own, while another goroutine registers: the longest registration is
// reported in nanoseconds.
func BenchmarkCheckOfAll(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		for name, all := range map[string]func(p *purgatory.DelayedOperationPurgatory[int]){
			"check": func(p *purgatory.DelayedOperationPurgatory[int]) { p.CheckAndCompleteAll() },
			"signal": func(p *purgatory.DelayedOperationPurgatory[int]) {
				before := p.Stats().Checks
				p.SignalAll()
				for p.Stats().Checks < before+int64(p.NumDelayed()) {
					time.Sleep(100 * time.Microsecond)
				}
			},
		} {
			for _, registering := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/waiting=%d/registering=%v", name, n, registering), func(b *testing.B) {
					checkOfAll(b, n, all, registering)
				})
			}
		}
	}
}

func checkOfAll(b *testing.B, n int, all func(*purgatory.DelayedOperationPurgatory[int]), registering bool) {
	p, err := purgatory.New[int]("bench")
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	var never atomic.Bool
	for i := range n {
		if _, err := p.TryCompleteElseWatch(&flagged{flag: &never}, time.Hour, i); err != nil {
			b.Fatal(err)
		}
	}
	if !registering {
		for b.Loop() {
			all(p)
		}
		return
	}
	var stop atomic.Bool
	var took []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := n; !stop.Load(); i++ {
			f := &flagged{flag: &never}
			began := time.Now()
			_, _ = p.TryCompleteElseWatch(f, time.Hour, i)
			took = append(took, time.Since(began))
			p.ForceComplete(f)
			time.Sleep(20 * time.Microsecond)
		}
	})
	for b.Loop() {
		all(p)
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100]), "ns/registration-p99")
	b.ReportMetric(float64(took[len(took)-1]), "ns/registration-max")
}

func BenchmarkHintForNobody(b *testing.B) {
	p, err := purgatory.New[string]("bench")
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		p.SignalUpTo("orders/12345", 77)
	}
}
