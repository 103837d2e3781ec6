package purgatory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
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

func completeBatch(b *testing.B, p *purgatory.DelayedOperationPurgatory[string], state *benchState, key string) {
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
