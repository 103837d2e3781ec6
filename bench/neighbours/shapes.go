package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
	"go.etcd.io/etcd/pkg/v3/wait"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// shapes are the lines of the table.
func shapes(p plan) []shape {
	onPositions := func(name string, measure func(positions, time.Duration) map[string]float64) shape {
		return over(name, positionMakers, measure)
	}
	all := []shape{
		onPositions("one wait and one wake, one goroutine", func(s positions, window time.Duration) map[string]float64 {
			return waitAndWake(s, 1, window)
		}),
		onPositions("one wait and one wake, two goroutines", func(s positions, window time.Duration) map[string]float64 {
			return waitAndWake(s, 2, window)
		}),
		over("a result by its id, registered and triggered on one goroutine", resultMakers, sameGoroutine),
		over("a result by its id, triggered by another goroutine", slices.Concat(resultMakers, blockingResults), otherGoroutine),
		onPositions(count(p.crowd)+" waits for one position, each", func(s positions, window time.Duration) map[string]float64 {
			return equalWaiters(s, p.crowd, window)
		}),
	}
	for n := 100; n <= p.many; n *= 10 {
		all = append(all, onPositions("one wait and one wake below "+count(n)+" far waiters", func(s positions, window time.Duration) map[string]float64 {
			defer crowd(s, n)()
			return waitAndWake(s, 1, window)
		}))
	}
	all = append(all,
		onPositions("a wait that is given up, and what it leaves", abandoned),
		onPositions("a push beside 100 waiters, none of whom it is enough for", func(s positions, window time.Duration) map[string]float64 {
			defer crowd(s, 100)()
			position := int64(0)
			return loop(window, 100, func() {
				position++
				s.Advance(0, position)
			})
		}),
		over("a produce over loopback, client included", serverMakers, func(b broker, window time.Duration) map[string]float64 {
			return produces(b, 0, window)
		}),
		over("a produce over loopback beside 100 fetches, none of which it is enough for", serverMakers, func(b broker, window time.Duration) map[string]float64 {
			return produces(b, 100, window)
		}),
		creation(),
	)
	for _, n := range []int{1, p.crowd, p.many} {
		all = append(all, over("one item for one of "+count(n), queueMakers, func(q queue, window time.Duration) map[string]float64 {
			return oneOfMany(q, n, window)
		}))
	}
	return append(all,
		onPositions(count(p.many)+" goroutines that wait, stacks included", func(s positions, _ time.Duration) map[string]float64 {
			before := meter.Live()
			release := crowd(s, p.many)
			after := meter.Live()
			release()
			return map[string]float64{result.Bytes: (float64(after) - float64(before)) / float64(p.many)}
		}),
		onPositions("a herd of "+count(p.many)+"; a bystander that wakes each millisecond", func(s positions, _ time.Duration) map[string]float64 {
			return herd(s, p.many, p.bursts)
		}),
	)
}

// loop does something again and again on one goroutine, and looks at the clock after each chunk.
func loop(window time.Duration, chunk int, do func()) map[string]float64 {
	return result.PerOp(meter.Loop(1, window, chunk, func(_, n int) {
		for range n {
			do()
		}
	}))
}

// must is for waits that nothing ends but what they wait for.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// waitAndWake has pairs of goroutines, each with a key. One tells the other which position to go to, and waits for it. It
// may find the position reached before it has begun to wait: so it is in a server.
func waitAndWake(s positions, pairs int, window time.Duration) map[string]float64 {
	type pair struct {
		position int64
		reach    chan int64
		_        [64]byte // two pairs never share a line
	}
	all := make([]*pair, pairs)
	var wakers sync.WaitGroup
	for key := range all {
		p := &pair{reach: make(chan int64, 1)}
		all[key] = p
		wakers.Go(func() {
			for position := range p.reach {
				s.Advance(key, position)
			}
		})
	}
	r := meter.Loop(pairs, window, 100, func(key, n int) {
		p := all[key]
		for range n {
			p.position++
			p.reach <- p.position
			must(s.Wait(context.Background(), key, p.position))
		}
	})
	for _, p := range all {
		close(p.reach)
	}
	wakers.Wait()
	return result.PerOp(r)
}

// far is a position that no key comes to.
const far = 1 << 40

// crowd has n goroutines wait for positions that do not come, on key 0. The function that it returns ends them.
func crowd(s positions, n int) (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	for i := range n {
		waiting.Go(func() { _ = s.Wait(ctx, 0, far+int64(i)) })
	}
	until(func() bool { return s.Waiting() == n })
	time.Sleep(10 * time.Millisecond) // for those who are only about to
	return func() {
		cancel()
		waiting.Wait()
	}
}

func until(reached func() bool) {
	for !reached() {
		runtime.Gosched()
	}
}

// equalWaiters has n goroutines wait for the same position, again and again.
func equalWaiters(s positions, n int, window time.Duration) map[string]float64 {
	ctx, cancel := context.WithCancel(context.Background())
	var arrived atomic.Int64
	var waiting sync.WaitGroup
	for range n {
		waiting.Go(func() {
			for position := int64(1); ; position++ {
				arrived.Add(1)
				if s.Wait(ctx, 0, position) != nil {
					return
				}
			}
		})
	}
	position := int64(0)
	all := func() bool { return arrived.Load() == (position+1)*int64(n) && s.Waiting() == n }
	r := meter.Loop(1, window, n, func(int, int) {
		until(all)
		position++
		s.Advance(0, position)
		until(all)
	})
	cancel()
	waiting.Wait()
	return result.PerOp(r)
}

// abandoned has a goroutine give up wait after wait: another one ends its context.
func abandoned(s positions, window time.Duration) map[string]float64 {
	cancels := make(chan context.CancelFunc)
	var canceller sync.WaitGroup
	canceller.Go(func() {
		for cancel := range cancels {
			until(func() bool { return s.Waiting() == 1 })
			cancel()
		}
	})
	position, waits := int64(far), 0
	before := meter.Live()
	m := loop(window, 100, func() {
		position++
		waits++
		ctx, cancel := context.WithCancel(context.Background())
		cancels <- cancel
		if s.Wait(ctx, 0, position) == nil {
			panic("a wait ended that nobody has ended")
		}
	})
	after := meter.Live()
	close(cancels)
	canceller.Wait()
	m[result.Bytes] = max(0, float64(after)-float64(before)) / float64(waits)
	return m
}

func sameGoroutine(r results, window time.Duration) map[string]float64 {
	id := uint64(0)
	return loop(window, 100, func() {
		id++
		receive := r.Register(id)
		r.Trigger(id, &id)
		mustBe(receive(), &id)
	})
}

// otherGoroutine is sameGoroutine with Trigger called by another goroutine, which hears of the id through a channel.
func otherGoroutine(r results, window time.Duration) map[string]float64 {
	id := uint64(0)
	ids := make(chan uint64, 1)
	var applier sync.WaitGroup
	applier.Go(func() {
		for i := range ids {
			r.Trigger(i, &id)
		}
	})
	m := loop(window, 100, func() {
		id++
		receive := r.Register(id)
		ids <- id
		mustBe(receive(), &id)
	})
	close(ids)
	applier.Wait()
	return m
}

func mustBe(got any, want *uint64) {
	if got != any(want) {
		panic(fmt.Sprintf("a wrong result: %v", got))
	}
}

// creation makes one for one key, unused, and closes it. What has goroutines waits for their end.
func creation() shape {
	shared, err := timer.NewSystemTimer()
	must(err)
	shared.Start()
	s := shape{name: "make one and close it, unused"}
	for _, x := range []struct {
		side side
		name string
		do   func()
	}{
		{hand, "", func() { kept = &handKey{waiters: make(map[int64]*handWaiters)} }},
		{ours, "`New`", func() { shutdown(newPurgatory[int]()) }},
		{ours, "`New` with a shared timer and no reaper", func() {
			shutdown(newPurgatory[int](purgatory.WithTimer(shared), purgatory.WithoutReaper()))
		}},
		{theirs, "badger `WaterMark`", func() {
			closer := z.NewCloser(1)
			new(y.WaterMark).Init(closer)
			closer.SignalAndWait()
		}},
		{theirs, "etcd `WaitTime`", func() { kept = wait.NewTimeList() }},
		{theirs, "etcd `Wait`", func() { kept = wait.New() }},
	} {
		s.peers = append(s.peers, peer{x.side, x.name, func(window time.Duration) map[string]float64 {
			return loop(window, 10, x.do)
		}})
	}
	return s
}

// kept has the compiler make what it would leave out.
var kept any //nolint:unused // it is written, so that what it refers to is made

// oneOfMany puts one item at a time among n that wait. Who gets it waits again.
func oneOfMany(q queue, n int, window time.Duration) map[string]float64 {
	ctx, cancel := context.WithCancel(context.Background())
	var about atomic.Int64
	var takers sync.WaitGroup
	taken := make(chan struct{}, 1)
	for range n {
		takers.Go(func() {
			for about.Add(1); q.Take(ctx) == nil; {
				taken <- struct{}{}
			}
		})
	}
	until(func() bool { return about.Load() == int64(n) })
	time.Sleep(10 * time.Millisecond)
	m := loop(window, min(100, max(1, 100_000/n)), func() {
		q.Put()
		<-taken
	})
	cancel()
	q.Close()
	takers.Wait()
	return m
}

// count is a number with commas.
func count(n int) string { return message.NewPrinter(language.English).Sprint(n) }
