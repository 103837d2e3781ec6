package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
)

// shapes are the lines of the table.
func shapes(p plan) []shape {
	all := []shape{
		over("a wait for a position that is reached", positionMakers, 0, ready),
		over("a key advances, and nobody waits", positionMakers, 0, push),
		over("an item that is there is taken, and put back", queueMakers, 0, takeAndPut),
		over("one wait and one wake, nobody has a timeout", untimedPositions, 1, waitAndWake),
		over("one wait and one wake, everybody has a timeout", timedPositions, 1, waitAndWake),
		over("one wait and one wake, two goroutines", positionMakers, 2, waitAndWake),
		over("one wait on two keys and one wake, nobody has a timeout", untimedEither, 0, waitForEither),
		over("one wait on two keys and one wake, everybody has a timeout", timedEither, 0, waitForEither),
		over("one callback on another goroutine, nobody has a timeout", untimedAcks, 0, oneCallback),
		over("one callback on another goroutine, everybody has a timeout", timedAcks, 0, oneCallback),
		over("a result by its id, registered and triggered on one goroutine", resultMakers, 0, handOver),
		over("a result by its id, triggered by another goroutine", slices.Concat(resultMakers, blockingResults), 1, handOver),
		over("a proposal and its result on one goroutine, processor time", proposalMakers, 0, proposed),
		over("a proposal and its result, applied by another goroutine, processor time", proposalMakers, 1, proposed),
		over("a proposal that is applied where nobody waits, processor time", proposalMakers, 0, appliedForNobody),
		over("a ready target that is reached, processor time", readyMakers, 0, readied),
		over("a ready target that is reached below "+count(p.crowd)+" that are further, processor time", readyMakers, p.crowd, readied),
		over(count(p.crowd)+" waits for one position, each", positionMakers, p.crowd, equalWaiters),
	}
	for n := 100; n <= p.many; n *= 10 {
		all = append(all, over("one wait and one wake below "+count(n)+" far waiters", positionMakers, n, waitBelow))
	}
	all = append(all,
		over("a wait that is given up, and what it leaves, nobody has a timeout", untimedPositions, 1, abandoned),
		over("a wait that is given up, and what it leaves, everybody has a timeout", timedPositions, 1, abandoned),
		over("a push beside 100 waiters, none of whom it is enough for", positionMakers, 100, push),
		over("a produce over loopback, client included", serverMakers, 0, produces),
		over("a produce over loopback beside 100 fetches, none of which it is enough for", serverMakers, 100, produces),
		making("make one and close it, unused", objectMakers, 0, creation),
		making("held by one that is unused", objectMakers, p.crowd, held),
		making("held by one that has had a wait on each of two keys", positionMakers, p.crowd, heldAfterWaits),
		over("one item for one of 1, nobody has a timeout", untimedQueues, 1, oneOfMany),
		over("one item for one of 1, everybody has a timeout", timedQueues, 1, oneOfMany),
	)
	for _, n := range []int{p.crowd, p.many} {
		all = append(all, over("one item for one of "+count(n), queueMakers, n, oneOfMany))
	}
	all = append(all,
		over("processor time: an item that is there is taken, held and put back", heldQueues, 1, takeHoldAndPut(1)),
		over("processor time: 64 take and hold 1 item", heldQueues, 64, takeHoldAndPut(1)),
		over("processor time: "+count(p.crowd)+" take and hold 2 items", heldQueues, p.crowd, takeHoldAndPut(2)),
		over("processor time: "+count(p.crowd)+" wait and give up", heldQueues, p.crowd, giveUpTogether),
	)
	return append(all,
		over(count(p.many)+" goroutines that wait, stacks included", positionMakers, p.many, footprint),
		over("a herd of "+count(p.many)+"; a bystander that wakes each millisecond", positionMakers, p.many, herd),
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

// must is for what does not fail here, such as waits that nothing ends but what they wait for.
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

// waitBelow is waitAndWake while n others wait for positions that do not come.
func waitBelow(s positions, n int, window time.Duration) map[string]float64 {
	defer crowd(s, n)()
	return waitAndWake(s, 1, window)
}

// ready waits for a position that its key has come to.
func ready(s positions, _ int, window time.Duration) map[string]float64 {
	s.Advance(0, 1)
	must(s.Wait(context.Background(), 0, 1)) // badger's mark follows a moment later
	return loop(window, 100, func() { must(s.Wait(context.Background(), 0, 1)) })
}

// push advances a key on which n wait for positions that do not come.
func push(s positions, n int, window time.Duration) map[string]float64 {
	defer crowd(s, n)()
	position := int64(0)
	return loop(window, 100, func() {
		position++
		s.Advance(0, position)
	})
}

// footprint is what n hold that wait.
func footprint(s positions, n int, _ time.Duration) map[string]float64 {
	before := meter.Live()
	defer crowd(s, n)()
	return map[string]float64{result.Bytes: (float64(meter.Live()) - float64(before)) / float64(n)}
}

// far is a position that no key comes to.
const far = 1 << 40

// crowd has n goroutines wait for positions that do not come, on key 0. The function that it returns ends them.
func crowd(s positions, n int) (release func()) {
	release = gather(n, func(ctx context.Context, i int) { _ = s.Wait(ctx, 0, far+int64(i)) })
	until(func() bool { return s.Waiting() == n })
	time.Sleep(10 * time.Millisecond) // for those who are only about to
	return release
}

// gather has n goroutines wait. The function that it returns ends their context, and returns when they have ended.
func gather(n int, wait func(ctx context.Context, i int)) (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	for i := range n {
		waiting.Go(func() { wait(ctx, i) })
	}
	return func() {
		cancel()
		waiting.Wait()
	}
}

// until returns when something has been reached, and panics if that takes a minute.
func until(reached func() bool) {
	begun := time.Now()
	for looks := 1; !reached(); looks++ {
		if looks%1024 == 0 && time.Since(begun) > time.Minute { // the clock costs as much as some looks
			panic("what the others do has not happened within a minute")
		}
		runtime.Gosched()
	}
}

// equalWaiters has n goroutines wait for the same position, again and again.
func equalWaiters(s positions, n int, window time.Duration) map[string]float64 {
	var arrived atomic.Int64
	defer gather(n, func(ctx context.Context, _ int) {
		position := int64(1)
		for arrived.Add(1); s.Wait(ctx, 0, position) == nil; arrived.Add(1) {
			position++
		}
	})()
	position := int64(0)
	all := func() bool { return arrived.Load() == (position+1)*int64(n) && s.Waiting() == n }
	return result.PerOp(meter.Loop(1, window, n, func(int, int) {
		until(all)
		position++
		s.Advance(0, position)
		until(all)
	}))
}

// abandoned has a goroutine give up wait after wait: another one ends its context.
func abandoned(s positions, _ int, window time.Duration) map[string]float64 {
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
	m[result.Bytes] = max(0, float64(meter.Live())-float64(before)) / float64(waits)
	close(cancels)
	canceller.Wait()
	return m
}

// handOver registers an id, and receives what this goroutine triggers, or another one that hears of the id through a
// channel.
func handOver(r results, others int, window time.Duration) map[string]float64 {
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
		if others > 0 {
			ids <- id
		} else {
			r.Trigger(id, &id)
		}
		if got := receive(); got != any(&id) {
			panic(fmt.Sprintf("a wrong result: %v", got))
		}
	})
	close(ids)
	applier.Wait()
	return m
}

// takeAndPut takes the only item, which is there, and puts it back. Nobody waits.
func takeAndPut(q queue, _ int, window time.Duration) map[string]float64 {
	q.Put()
	return loop(window, 100, func() {
		must(q.Take(context.Background()))
		q.Put()
	})
}

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
func count(n int) string { return result.Figure(float64(n)) }
