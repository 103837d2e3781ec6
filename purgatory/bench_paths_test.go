package purgatory_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

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

func newBenchPurgatory(b *testing.B, opts ...purgatory.Option) *purgatory.DelayedOperationPurgatory[string] {
	b.Helper()
	p, err := purgatory.New[string]("bench", opts...)
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
