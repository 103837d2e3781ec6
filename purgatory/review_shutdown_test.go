package purgatory_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/purgatory"
)

// Shutdown with a context that lives returns while others register, check, cancel and end their
// goroutines. Nothing is pending then, every accepted operation was answered once, and no
// callback runs any more.
func TestShutdownReturnsWhateverRaces(t *testing.T) {
	for seed := range uint64(80) {
		var opts []purgatory.Option
		if seed%3 == 0 {
			opts = append(opts, purgatory.WithFirstInFirstOut())
		}
		if seed%4 == 0 {
			opts = append(opts, purgatory.WithSignalWorkers(1), purgatory.WithExpiryWorkers(1))
		}
		shutdownRound(t, seed, opts)
		if t.Failed() {
			t.Logf("seed %d", seed)
			return
		}
	}
}

func shutdownRound(t *testing.T, seed uint64, opts []purgatory.Option) {
	p := open[int](t, append(opts, purgatory.WithPanicHandler(func(any, []byte) {
		if rand.IntN(2) == 0 {
			runtime.Goexit()
		}
	}))...)
	var returned atomic.Bool
	var late, answers, steps atomic.Int64
	var wg sync.WaitGroup
	unwinds := func(n int) {
		switch n {
		case 0:
			panic("of the user's")
		case 1:
			runtime.Goexit()
		}
	}
	step := func(rnd *rand.Rand) {
		key := rnd.IntN(4)
		switch rnd.IntN(6) {
		case 0, 1, 2:
			fails, met := rnd.IntN(12), rnd.IntN(3)
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() > 1 {
					unwinds(fails - 2)
				}
				return o.tries.Load() > 2 && met == 0
			}
			o.complete = func() {
				if answers.Add(1); returned.Load() {
					late.Add(1)
				}
				p.SignalInOrder(key)
				unwinds(fails)
			}
			_, _ = p.TryCompleteElseWatch(o, time.Duration(rnd.IntN(3))*time.Millisecond, key, rnd.IntN(4))
		case 3:
			p.CheckAndComplete(key, rnd.IntN(4))
		case 4:
			p.CheckAndCompleteInOrder(key)
		case 5:
			if rnd.IntN(2) == 0 {
				p.CancelForKey(key, nil)
			} else {
				p.CompleteForKey(key)
			}
		}
	}
	for g := range uint64(5) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, g))
			for after := 0; after < 10; steps.Add(1) { // some steps come after Shutdown has returned
				if returned.Load() {
					after++
				}
				inBackground(func() { step(rnd) })()
			}
		})
	}
	for begin := rand.New(rand.NewPCG(seed, 99)).Int64N(300); steps.Load() < begin; {
		runtime.Gosched()
	}
	within, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	assert.NoError(t, p.Shutdown(within))
	returned.Store(true)
	assert.Zero(t, p.NumDelayed())
	wg.Wait()
	s := conserved(t, p)
	assert.Zero(t, s.Pending)
	assert.Equal(t, s.Accepted, answers.Load(), "answers")
	assert.Zero(t, late.Load(), "callbacks after Shutdown has returned")
	empty(t, p)
}
