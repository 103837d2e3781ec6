package main

import (
	"context"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
	"go.etcd.io/etcd/pkg/v3/wait"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// closer is what is made for one key, one list or one pool. Close returns when its goroutines have ended.
type closer interface{ Close() }

var objectMakers = []maker[closer]{
	{hand, "", func() closer { return &oneHandKey{handKey{waiters: make(map[int64]*handWaiters)}} }},
	{ours, "`New`", func() closer { return &inPurgatory{p: newPurgatory[int]()} }},
	{ours, "`New` with a shared timer and no reaper", func() closer {
		return &inPurgatory{p: newPurgatory[int](purgatory.WithTimer(sharedTimer()), purgatory.WithoutReaper())}
	}},
	{theirs, "badger `WaterMark`", newOneWaterMark},
	{theirs, "etcd `WaitTime`", func() closer { return oneWaitTime{wait.NewTimeList()} }},
	{theirs, "etcd `Wait`", func() closer { return etcdWait{wait.New()} }},
	{theirs, "`semaphore.Weighted`", func() closer { return newSemaphoreQueue() }},
	{theirs, "puddle's pool", func() closer { return newPuddle(1) }},
}

type oneHandKey struct{ handKey }

func (*oneHandKey) Close() {}

type oneWaitTime struct{ wait.WaitTime }

func (oneWaitTime) Close() {}

type oneWaterMark struct {
	y.WaterMark
	closer *z.Closer
}

func newOneWaterMark() closer {
	w := &oneWaterMark{closer: z.NewCloser(1)}
	w.Init(w.closer)
	return w
}

func (w *oneWaterMark) Close() { w.closer.SignalAndWait() }

var sharedTimer = sync.OnceValue(func() timer.Timer {
	shared, err := timer.NewSystemTimer()
	must(err)
	shared.Start()
	return shared
})

// creation makes one and closes it.
func creation(create func() closer, _ int, window time.Duration) map[string]float64 {
	return loop(window, 10, func() {
		kept = create()
		kept.Close()
	})
}

// kept has the compiler make what it would leave out.
var kept closer

// held is what each of n holds that nobody uses, stacks included.
func held(create func() closer, n int, _ time.Duration) map[string]float64 {
	return hold(n, create)
}

// heldAfterWaits is held after a goroutine has waited on each key, one of them until it was given up.
func heldAfterWaits(create func() positions, n int, _ time.Duration) map[string]float64 {
	return hold(n, func() closer {
		s := create()
		ctx, cancel := context.WithCancel(context.Background())
		var both sync.WaitGroup
		both.Go(func() { must(s.Wait(context.Background(), 0, 1)) })
		both.Go(func() { _ = s.Wait(ctx, 1, 1) })
		until(func() bool { return s.Waiting() == 2 })
		s.Advance(0, 1)
		cancel()
		both.Wait()
		return s
	})
}

func hold(n int, create func() closer) map[string]float64 {
	all := make([]closer, n)
	before := meter.Live()
	for i := range all {
		all[i] = create()
	}
	each := max(0, float64(meter.Live())-float64(before)) / float64(n)
	for _, o := range all {
		o.Close()
	}
	return map[string]float64{result.Bytes: each}
}
