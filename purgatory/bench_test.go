package purgatory_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// One operation's life beside what a program without a purgatory pays for its timeout alone:
//
//	go test -run '^$' -bench 'OperationLife|AfterFuncStop' -benchmem
//
// The comparison with other timers and with purgatories written by hand, over numbers of pending operations, is the
// bench module's: make bench.

const benchBatch = 64

type benchState struct {
	ready     bool
	completed int
}

// benchOperation carries eight bytes of its user's.
type benchOperation struct {
	operation.DelayedOperation
	state *benchState
}

func (o *benchOperation) TryComplete() bool { return o.state.ready }
func (o *benchOperation) OnComplete()       { o.state.completed++ }
func (o *benchOperation) OnExpiration()     {}

// BenchmarkOperationLife is an operation's life: allocated, tried, watched under its keys with a timeout of 30 s, and
// completed by a check of the first key. One check completes a batch of 64.
func BenchmarkOperationLife(b *testing.B) {
	for _, keys := range []int{1, 3} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { benchmarkLife(b, keys) })
	}
}

func benchmarkLife(b *testing.B, keys int) {
	p, err := purgatory.New[string]("bench")
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	const ownKeys = 500
	sets := make([][]string, ownKeys)
	for i := range sets {
		// No goroutine checks the keys beyond the first.
		for k := range keys {
			sets[i] = append(sets[i], fmt.Sprintf("key-%d-%d", k, i))
		}
	}
	var state benchState
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%benchBatch == 0 && n > 0 {
			completeBatch(b, p, &state, sets[n/benchBatch%ownKeys][0])
		}
		set := sets[(n/benchBatch+1)%ownKeys]
		if _, err := p.TryCompleteElseWatch(&benchOperation{state: &state}, 30*time.Second, set...); err != nil {
			b.Fatal(err)
		}
	}
}

func completeBatch(b *testing.B, p *purgatory.Purgatory[string], state *benchState, key string) {
	state.ready = true
	if n := p.CheckAndComplete(key); n != benchBatch {
		b.Fatalf("completed %d operations of %d", n, benchBatch)
	}
	state.ready = false
}

// BenchmarkAfterFuncStop is the timeout alone, with the standard library's timer: no keys, no waiting, no exactly-once.
func BenchmarkAfterFuncStop(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		time.AfterFunc(30*time.Second, func() {}).Stop()
	}
}

// BenchmarkBesideBlockedCallbacks is an operation's life, ended alone, while the callbacks of many others block.
func BenchmarkBesideBlockedCallbacks(b *testing.B) {
	for _, blocked := range []int{0, 1000} {
		b.Run(fmt.Sprintf("blocked=%d", blocked), func(b *testing.B) {
			p, err := purgatory.New[string]("bench")
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			block, inside := make(chan struct{}), make(chan struct{})
			defer close(block)
			for i := range blocked {
				op := &blockingOperation{block: block, inside: inside}
				if _, err := p.TryCompleteElseWatch(op, time.Hour, fmt.Sprint("blocked-", i)); err != nil {
					b.Fatal(err)
				}
				go p.ForceComplete(op)
				<-inside
			}
			var state benchState
			b.ReportAllocs()
			for b.Loop() {
				state.ready = false
				if _, err := p.TryCompleteElseWatch(&benchOperation{state: &state}, time.Hour, "key"); err != nil {
					b.Fatal(err)
				}
				state.ready = true
				if p.CheckAndComplete("key") != 1 {
					b.Fatal("not completed")
				}
			}
		})
	}
}

// blockingOperation's OnComplete blocks.
type blockingOperation struct {
	operation.DelayedOperation
	block, inside chan struct{}
}

func (o *blockingOperation) TryComplete() bool { return false }
func (o *blockingOperation) OnComplete()       { o.inside <- struct{}{}; <-o.block }
func (o *blockingOperation) OnExpiration()     {}

// BenchmarkWakeup is one waiting goroutine that reads a number until it has risen, and
// the goroutine that raises it and waits for the answer: a turn is two switches of
// goroutines and what waiting costs.
//
//	go test -run '^$' -bench 'Wakeup|Hint' -benchmem ./purgatory
func BenchmarkWakeup(b *testing.B) {
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

// BenchmarkCrowdOfChecks has goroutines check one key at once, for which 1,000 operations wait that say no: one of
// them makes the tries, and the others leave marks.
func BenchmarkCrowdOfChecks(b *testing.B) {
	const waiting = 1000
	for _, goroutines := range []int{100, 1000, 3000} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			p, err := purgatory.New[int]("bench")
			require.NoError(b, err)
			defer p.Close()
			for range waiting {
				_, err = p.TryCompleteElseWatch(&benchOperation{state: &benchState{}}, time.Hour, 1)
				require.NoError(b, err)
			}
			for i := 0; i < b.N; i += goroutines * waiting {
				start := make(chan struct{})
				var group sync.WaitGroup
				for range goroutines {
					group.Go(func() {
						<-start
						p.CheckAndComplete(1)
					})
				}
				close(start)
				group.Wait()
			}
		})
	}
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

// What it costs to make and close a purgatory: one of many on a shared timer, and a whole one.
func BenchmarkNewClose(b *testing.B) {
	shared, err := timer.NewSystemTimer()
	require.NoError(b, err)
	defer shared.Stop()
	for name, opts := range map[string][]purgatory.Option{
		"shared timer, no reaper": {purgatory.WithTimer(shared), purgatory.WithoutReaper()},
		"default":                 nil,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := purgatory.New[string]("one of many", opts...)
				if err != nil {
					b.Fatal(err)
				}
				_ = p.Close()
			}
		})
	}
}

// BenchmarkObserved is BenchmarkOperationLife on one key with what an operator may ask for switched on: what it adds is
// the price of looking.
//
//	go test -run '^$' -bench Observed -benchmem -count 10
func BenchmarkObserved(b *testing.B) {
	for _, v := range []struct {
		name string
		opts []purgatory.Option
	}{
		{"off", nil},
		{"diagnostics", []purgatory.Option{purgatory.WithDiagnostics()}},
	} {
		b.Run(v.name, func(b *testing.B) {
			p, err := purgatory.New[string]("bench", v.opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			keys := benchKeys(500)
			var state benchState
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%benchBatch == 0 && n > 0 {
					completeBatch(b, p, &state, keys[n/benchBatch%len(keys)])
				}
				if _, err := p.TryCompleteElseWatch(&benchOperation{state: &state}, 30*time.Second, keys[(n/benchBatch+1)%len(keys)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

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

// The commonest paths of an adopter, each beside what one writes by hand: a callback by a worker after a signal, a condition
// that is met at once. Run them in turn, as a shared machine is never the same: go test -c, then several times
//
//	./purgatory.test -test.run '^$' -test.bench 'Callback|ReadyAtOnce'

// byHand is a mutex and a map with those who wait for each key.
type byHand struct {
	mu    sync.Mutex
	ready map[string]bool
	waits map[string][]func()
}

func (h *byHand) wait(key string, done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready[key] {
		go done()
		return
	}
	h.waits[key] = append(h.waits[key], done)
}

// signal hands those who wait to a goroutine: the caller may hold a lock that they need.
func (h *byHand) signal(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	waits := h.waits[key]
	delete(h.waits, key)
	go func() {
		for _, done := range waits {
			done()
		}
	}()
}

// acked is an operation whose OnComplete tells a channel.
type acked struct {
	operation.DelayedOperation
	ready *bool
	done  chan struct{}
}

func (o *acked) TryComplete() bool { return *o.ready }
func (o *acked) OnComplete()       { o.done <- struct{}{} }
func (o *acked) OnExpiration()     {}

// BenchmarkSignalledCallback is a wait, a signal, and the callback that a worker runs.
func BenchmarkSignalledCallback(b *testing.B) {
	done := make(chan struct{}, 1)
	b.Run("by hand", func(b *testing.B) {
		h := byHand{ready: make(map[string]bool), waits: make(map[string][]func())}
		b.ReportAllocs()
		for b.Loop() {
			h.wait("key", func() { done <- struct{}{} })
			h.signal("key")
			<-done
		}
	})
	for name, timeout := range map[string]time.Duration{"Signal": purgatory.NoTimeout, "Signal, 30 s": 30 * time.Second} {
		b.Run(name, func(b *testing.B) {
			p := newBenchPurgatory(b)
			ready := new(bool)
			b.ReportAllocs()
			for b.Loop() {
				*ready = false
				if _, err := p.TryCompleteElseWatch(&acked{ready: ready, done: done}, timeout, "key"); err != nil {
					b.Fatal(err)
				}
				*ready = true
				p.Signal("key")
				<-done
			}
		})
	}
}

func newBenchPurgatory(b *testing.B) *purgatory.Purgatory[string] {
	b.Helper()
	p, err := purgatory.New[string]("bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

// BenchmarkReadyAtOnce is a condition that is met: a mutex and a comparison, by hand.
func BenchmarkReadyAtOnce(b *testing.B) {
	var state struct {
		sync.Mutex
		at int64
	}
	state.at = 1
	reached := func() bool {
		state.Lock()
		defer state.Unlock()
		return state.at >= 1
	}
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !reached() {
				b.Fatal("not reached")
			}
		}
	})
	b.Run("Await", func(b *testing.B) {
		p, ctx := newBenchPurgatory(b), context.Background()
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Await(ctx, time.Minute, reached, "key"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Await, context", func(b *testing.B) {
		p := newBenchPurgatory(b)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Await(ctx, time.Minute, reached, "key"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("TryCompleteElseWatch", func(b *testing.B) {
		p := newBenchPurgatory(b)
		ready := true
		ops := make([]readyOperation, 1024)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			op := &ops[i%len(ops)]
			*op = readyOperation{ready: &ready}
			if _, err := p.TryCompleteElseWatch(op, time.Minute, "key"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// readyOperation's OnComplete does nothing.
type readyOperation struct {
	operation.DelayedOperation
	ready *bool
}

func (o *readyOperation) TryComplete() bool { return *o.ready }
func (*readyOperation) OnComplete()         {}
func (*readyOperation) OnExpiration()       {}

// BenchmarkAPurgatoryForEach is an operation's life in each of 10,000 purgatories in turn, with a collection after each
// round: what a purgatory keeps for its next operation is in no cache, and the collector has gone over it.
//
//	go test -run '^$' -bench APurgatoryForEach -benchmem ./purgatory
func BenchmarkAPurgatoryForEach(b *testing.B) {
	all := make([]*purgatory.Purgatory[string], 10_000)
	for i := range all {
		all[i] = purgatory.Must(purgatory.New[string]("bench"))
	}
	var paused time.Duration
	collect := func() {
		b.StopTimer()
		defer b.StartTimer()
		runtime.GC()
		var s debug.GCStats
		debug.ReadGCStats(&s)
		paused = max(paused, s.Pause[0])
	}
	var state benchState
	for i := 0; b.Loop(); i++ {
		if i%len(all) == 0 {
			collect()
		}
		p := all[i%len(all)]
		if _, err := p.TryCompleteElseWatch(&benchOperation{state: &state}, purgatory.NoTimeout, "k"); err != nil {
			b.Fatal(err)
		}
		state.ready = true
		p.CheckAndComplete("k")
		state.ready = false
	}
	b.ReportMetric(float64(paused.Nanoseconds()), "ns/pause-max")
}
