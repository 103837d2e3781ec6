package purgatory_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Tests that operations that have ended do not stay reachable while others go on.

// A verb ends 300 operations, and the first callback blocks. Operations of later batches, which
// others end meanwhile, can be collected.
func TestABlockedCallbackKeepsNoOperationOfALaterBatch(t *testing.T) {
	for name, verb := range map[string]func(p *stringPurgatory){
		"CancelForKey":   func(p *stringPurgatory) { p.CancelForKey("a", nil) },
		"CompleteForKey": func(p *stringPurgatory) { p.CompleteForKey("a") },
		"Close":          func(p *stringPurgatory) { _ = p.Close() },
		"CancelMatching": func(p *stringPurgatory) {
			p.CancelMatching("a", nil, func(o operation.Operation) bool { return o.(*op).complete != nil })
		},
	} {
		for _, ordered := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p := onManualClock[string](t)
				in, out := make(chan struct{}), make(chan struct{})
				blocks := &op{complete: func() { close(in); <-out }}
				submit(t, p, blocks, hour, "a")
				first := submittedAt(t, p, ordered, 200)
				rest := submittedAt(t, p, ordered, 100)
				var wg sync.WaitGroup
				wg.Go(func() { verb(p) })
				<-in
				forceAll(t, p, rest)
				gone(t, rest)
				close(out)
				wg.Wait()
				runtime.KeepAlive(first)
			})
		}
	}
}

//go:noinline
func submittedAt(t *testing.T, p *stringPurgatory, ordered bool, n int) (all []weak.Pointer[op]) {
	t.Helper()
	for range n {
		o := &op{}
		if !ordered {
			submit(t, p, o, hour, "a")
		} else {
			_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: 5})
			require.NoError(t, err)
		}
		all = append(all, weak.Make(o))
	}
	return all
}

// connection is a key that refers to the operation that waits under it.
type connection struct{ waits *op }

// The key of an operation that has been answered is not kept while a later callback blocks.
func TestABlockedCallbackKeepsNoKeyOfAnAnsweredOperation(t *testing.T) {
	p := onManualClock[any](t)
	in, out := make(chan struct{}), make(chan struct{})
	all := func() (all []weak.Pointer[op]) {
		for range 50 {
			c := &connection{waits: &op{}}
			submit[any](t, p, c.waits, hour, c, "all")
			all = append(all, weak.Make(c.waits))
		}
		return all
	}()
	submit[any](t, p, &op{complete: func() { close(in); <-out }}, hour, "all")
	var wg sync.WaitGroup
	wg.Go(func() { p.CancelForKey("all", nil) })
	<-in
	gone(t, all)
	close(out)
	wg.Wait()
}

// heavy is an operation of 1 MB.
type heavy struct {
	op
	_ [1 << 20]byte
}

// 16 goroutines make operations of 1 MB on 3 keys and end them. Of those that were answered,
// never more than 4 are reachable.
func TestFewHeavyOperationsAreReachable(t *testing.T) {
	const goroutines = 16
	p := onManualClock[int](t)
	var mu sync.Mutex
	var answered []weak.Pointer[heavy]
	round := func(rnd *rand.Rand) {
		var met atomic.Bool
		done := make(chan struct{})
		keys := rnd.Perm(8)[:3]
		weakly := func() weak.Pointer[heavy] {
			o := &heavy{op: op{try: met.Load, complete: func() { close(done) }}}
			_, err := p.TryCompleteElseWatch(o, hour, keys...)
			assert.NoError(t, err)
			return weak.Make(o)
		}()
		switch rnd.IntN(4) {
		case 0:
			p.CancelForKey(keys[1], nil)
		case 1:
			p.CompleteForKey(keys[2])
		default:
			met.Store(true)
			p.CheckAndComplete(keys[rnd.IntN(3)])
		}
		<-done
		mu.Lock()
		defer mu.Unlock()
		answered = append(answered, weakly)
	}
	var stop atomic.Bool
	var rounds atomic.Int64
	var wg sync.WaitGroup
	for g := range uint64(goroutines) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, g))
			for !stop.Load() {
				round(rnd)
				rounds.Add(1)
			}
		})
	}
	// A goroutine that is interrupted in a walk refers to what is left of its batch. With the race
	// detector, or on a busy machine, some are interrupted at any moment: it only looks for races then.
	few := 0
	for range howMany(60, 6) {
		for before := rounds.Load(); rounds.Load() < before+20; {
			runtime.Gosched()
		}
		mu.Lock()
		before := answered
		answered = nil
		mu.Unlock()
		runtime.GC() // frees what was not reachable when it began
		reachable := 0
		for _, w := range before {
			if w.Value() != nil {
				reachable++
			}
		}
		if reachable <= 4 {
			few++
		}
	}
	stop.Store(true)
	wg.Wait()
	if !purgatory.RaceDetector {
		assert.Greater(t, few, 20, "of 60 samples, those in which at most 4 answered operations of 1 MB are reachable")
	}
	runtime.GC()
	for _, w := range answered {
		assert.Nil(t, w.Value(), "nobody is in a walk any more")
	}
	empty(t, p)
}
