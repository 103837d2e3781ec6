package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/pkg/v3/wait"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// shapes are the lines of the table.
func shapes(p plan) []shape {
	all := []shape{
		overPositions("one wait and one wake, one goroutine", func(s positions, window time.Duration) map[string]float64 {
			return waitAndWake(s, 1, window)
		}),
		overPositions("one wait and one wake, two goroutines", func(s positions, window time.Duration) map[string]float64 {
			return waitAndWake(s, 2, window)
		}),
		overResults("a result by its id, registered and triggered on one goroutine", false, sameGoroutine),
		overResults("a result by its id, triggered by another goroutine", true, otherGoroutine),
		overPositions(fmt.Sprintf("%s waits for one position, each", count(p.crowd)), func(s positions, window time.Duration) map[string]float64 {
			return equalWaiters(s, p.crowd, window)
		}),
	}
	for n := 100; n <= p.many; n *= 10 {
		all = append(all, overPositions(fmt.Sprintf("one wait and one wake below %s far waiters", count(n)), func(s positions, window time.Duration) map[string]float64 {
			defer crowd(s, n)()
			return waitAndWake(s, 1, window)
		}))
	}
	all = append(all,
		overPositions("a wait that is given up, and what it leaves", abandoned),
		overPositions("a push beside 100 waiters, none of whom it is enough for", func(s positions, window time.Duration) map[string]float64 {
			defer crowd(s, 100)()
			position := int64(0)
			return rate(meter.Loop(1, window, 100, func(_, n int) {
				for range n {
					position++
					s.Advance(0, position)
				}
			}))
		}),
		overServers("a produce over loopback, client included", 0),
		overServers("a produce over loopback beside 100 fetches, none of which it is enough for", 100),
		creation(),
	)
	for _, n := range []int{1, p.crowd, p.many} {
		all = append(all, overQueues(fmt.Sprintf("one item for one of %s", count(n)), n))
	}
	return append(all,
		overPositions(fmt.Sprintf("%s goroutines that wait, stacks included", count(p.many)), func(s positions, _ time.Duration) map[string]float64 {
			before := meter.LiveWithStacks()
			release := crowd(s, p.many)
			after := meter.LiveWithStacks()
			release()
			return map[string]float64{result.Bytes: (float64(after) - float64(before)) / float64(p.many)}
		}),
		overPositions(fmt.Sprintf("a herd of %s; a bystander that wakes each millisecond", count(p.many)), func(s positions, _ time.Duration) map[string]float64 {
			return herd(s, p.many, p.bursts)
		}),
	)
}

// rate is what a loop says in the table.
func rate(r meter.Rate) map[string]float64 {
	return map[string]float64{result.NsOp: r.NsPerOp, result.BytesOp: r.BytesPerOp, result.AllocsOp: r.AllocsPerOp}
}

// overPositions is a shape of those that wait for positions, each with two keys.
func overPositions(name string, measure func(positions, time.Duration) map[string]float64) shape {
	s := shape{name: name}
	for _, m := range positionPeers {
		s.peers = append(s.peers, peer{m.side, m.name, func(window time.Duration) map[string]float64 {
			p := m.make(2)
			defer p.Close()
			return measure(p, window)
		}})
	}
	return s
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
	return rate(r)
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
	return rate(r)
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
	r := meter.Loop(1, window, 100, func(_, n int) {
		for range n {
			position++
			waits++
			ctx, cancel := context.WithCancel(context.Background())
			cancels <- cancel
			if s.Wait(ctx, 0, position) == nil {
				panic("a wait ended that nobody has ended")
			}
		}
	})
	after := meter.Live()
	close(cancels)
	canceller.Wait()
	m := rate(r)
	m[result.Bytes] = max(0, float64(after)-float64(before)) / float64(waits)
	return m
}

// overResults is a shape of those that wait for a result by its id.
func overResults(name string, blocking bool, measure func(results, time.Duration) meter.Rate) shape {
	s := shape{name: name}
	for _, m := range resultPeers {
		if m.blocks && !blocking {
			continue
		}
		s.peers = append(s.peers, peer{m.side, m.name, func(window time.Duration) map[string]float64 {
			r := m.make()
			defer r.Close()
			return rate(measure(r, window))
		}})
	}
	return s
}

func sameGoroutine(r results, window time.Duration) meter.Rate {
	id := uint64(0)
	return meter.Loop(1, window, 100, func(_, n int) {
		for range n {
			id++
			receive := r.Register(id)
			r.Trigger(id, &id)
			mustBe(receive(), &id)
		}
	})
}

// otherGoroutine is sameGoroutine with Trigger called by another goroutine, which hears of the id through a channel.
func otherGoroutine(r results, window time.Duration) meter.Rate {
	id := uint64(0)
	ids := make(chan uint64, 1)
	var applier sync.WaitGroup
	applier.Go(func() {
		for i := range ids {
			r.Trigger(i, &id)
		}
	})
	rate := meter.Loop(1, window, 100, func(_, n int) {
		for range n {
			id++
			receive := r.Register(id)
			ids <- id
			mustBe(receive(), &id)
		}
	})
	close(ids)
	applier.Wait()
	return rate
}

func mustBe(got any, want *uint64) {
	if got != any(want) {
		panic(fmt.Sprintf("a wrong result: %v", got))
	}
}

// creation makes one, unused, and closes it.
func creation() shape {
	s := shape{name: "make one and close it, unused"}
	add := func(at side, name string, make func() (discard func())) {
		s.peers = append(s.peers, peer{at, name, func(window time.Duration) map[string]float64 {
			return rate(meter.Loop(1, window, 10, func(_, n int) {
				for range n {
					make()()
				}
			}))
		}})
	}
	shared, err := timer.NewSystemTimer()
	must(err)
	add(hand, "", func() func() { return newByHand(1).Close })
	add(ours, "`New`", func() func() { return closing(newPurgatory[int]()) })
	add(ours, "`New` with a shared timer and no reaper", func() func() {
		shared.Start()
		return closing(newPurgatory[int](purgatory.WithTimer(shared), purgatory.WithoutReaper()))
	})
	add(theirs, "badger `WaterMark`", func() func() { return newWaterMarks(1).Close })
	add(theirs, "etcd `WaitTime`", func() func() { return newWaitTimes(1).Close })
	add(theirs, "etcd `Wait`", func() func() { return func() { runtime.KeepAlive(wait.New()) } })
	return s
}

func closing(p *purgatory.DelayedOperationPurgatory[int]) func() { return func() { must(p.Close()) } }

// overQueues puts one item at a time among n that wait. Who gets it waits again.
func overQueues(name string, n int) shape {
	s := shape{name: name}
	for _, m := range queuePeers {
		s.peers = append(s.peers, peer{m.side, m.name, func(window time.Duration) map[string]float64 {
			q := m.make()
			ctx, cancel := context.WithCancel(context.Background())
			var about atomic.Int64
			var takers sync.WaitGroup
			taken := make(chan int, 1)
			for range n {
				takers.Go(func() {
					about.Add(1)
					for {
						item, err := q.Take(ctx)
						if err != nil {
							return
						}
						taken <- item
					}
				})
			}
			until(func() bool { return about.Load() == int64(n) })
			time.Sleep(10 * time.Millisecond)
			item := 0
			r := meter.Loop(1, window, min(100, max(1, 100_000/n)), func(_, puts int) {
				for range puts {
					item++
					q.Put(item)
					if got := <-taken; got != item {
						panic(fmt.Sprintf("item %d came for %d", got, item))
					}
				}
			})
			cancel()
			q.Close()
			takers.Wait()
			return rate(r)
		}})
	}
	return s
}

// count is a number with commas.
func count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}
