package purgatory_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestExtendAllocatesNothing(t *testing.T) {
	p := onManualClock[string](t)
	o := submitted(t, p, "a")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { p.Extend(o, 2*hour) }))
	assert.Zero(t, testing.AllocsPerRun(1000, func() { p.Extend(o, hour); p.Extend(o, 2*hour) }))
}

// A crowd that comes to a new purgatory makes the shard of its key, with what counts its keys, once.
func TestACrowdMakesAShardOnce(t *testing.T) {
	const keys, crowd = 1 << 14, 100
	p, err := purgatory.New[int](t.Name(), purgatory.WithWatcherShards(1), purgatory.WithKeyStats(keys))
	require.NoError(t, err)
	defer p.Close()
	var before, after runtime.MemStats
	var all sync.WaitGroup
	start := make(chan struct{})
	for range crowd {
		all.Go(func() {
			<-start
			_, err := p.TryCompleteElseWatch(&op{}, purgatory.NoTimeout, 1)
			assert.NoError(t, err)
		})
	}
	runtime.ReadMemStats(&before)
	close(start)
	all.Wait()
	runtime.ReadMemStats(&after)
	t.Log((after.TotalAlloc-before.TotalAlloc)>>10, "KiB")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
}

// Programs make a purgatory for each of their objects.
func TestAPurgatoryOnASharedTimerIsLight(t *testing.T) {
	shared, err := timer.NewSystemTimer()
	require.NoError(t, err)
	defer shared.Stop()
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		p, err := purgatory.New[int]("light", purgatory.WithTimer(shared), purgatory.WithoutReaper())
		require.NoError(t, err)
		_ = p.Close()
	}), 20.0)
}

// In a steady state ending operations allocates nothing. (A cancellation allocates its
// cause, once for all operations that it ends.) TestObservingOptionsAllocateNothingPerOperation counts what
// submitting them allocates.
func TestEndingAnOperationAllocatesNothing(t *testing.T) {
	const runs, each = 50, 10
	for name, end := range map[string]func(p *purgatory.DelayedOperationPurgatory[string], key string, ops []*probe){
		"CheckAndComplete": func(p *purgatory.DelayedOperationPurgatory[string], key string, ops []*probe) {
			for _, op := range ops {
				op.ready = true
			}
			p.CheckAndComplete(key)
		},
		"CheckAndComplete in vain, ForceComplete": func(p *purgatory.DelayedOperationPurgatory[string], key string, ops []*probe) {
			p.CheckAndComplete(key)
			for _, op := range ops {
				p.ForceComplete(op)
			}
		},
		"expiry": func(p *purgatory.DelayedOperationPurgatory[string], _ string, ops []*probe) {
			for _, op := range ops {
				p.Extend(op, 0)
			}
			p.AdvanceClock(time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var keys []string
			var batches [][]*probe
			for i := range runs + 1 { // the first is not counted
				keys = append(keys, strconv.Itoa(i))
				batches = append(batches, nil)
				for range each {
					batches[i] = append(batches[i], probed(t, p, time.Hour, keys[i], "quiet", "quieter"))
				}
			}
			i := 0
			allocs := testing.AllocsPerRun(runs, func() {
				end(p, keys[i], batches[i])
				i++
			})
			if !purgatory.RaceDetector { // it makes a sync.Pool drop items
				assert.Zero(t, allocs)
			}
			assert.Zero(t, p.NumDelayed())
			for _, batch := range batches {
				for _, op := range batch {
					assert.NotEqual(t, operation.Pending, op.Outcome())
				}
			}
		})
	}
}

// An operation on several keys allocates nothing, whichever of its keys share a shard.
func TestSubmittingToFewShardsAllocatesNothingBesideTheOperation(t *testing.T) {
	const keys = 4
	p := onManualClock[string](t, purgatory.WithWatcherShards(2))
	all := make([]string, 40)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	for first := 0; first+keys <= len(all); first += keys {
		for checked := range keys {
			life := func() {
				op := &probe{}
				_, _ = p.TryCompleteElseWatch(op, time.Hour, all[first:first+keys]...)
				op.ready = true
				p.CheckAndComplete(all[first+checked])
			}
			for range 300 {
				life()
			}
			assert.LessOrEqual(t, testing.AllocsPerRun(200, life), 1.0, "keys from %d on, key %d checked", first, checked)
		}
	}
}

// Submitting an operation allocates nothing: with one key, with as many keys as fit on the
// stack, and with more keys while operations come and go.
func TestSubmittingAllocatesNothingBesideTheOperation(t *testing.T) {
	p := onManualClock[string](t)
	all := make([]string, 40)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	for _, keys := range []int{1, 2, purgatory.FewKeys, purgatory.FewKeys + 1, 8} {
		if purgatory.RaceDetector && keys > purgatory.FewKeys {
			continue // the race detector makes a sync.Pool drop items
		}
		life := func() {
			op := &probe{}
			_, _ = p.TryCompleteElseWatch(op, time.Hour, all[:keys]...)
			op.ready = true
			p.CheckAndComplete(all[keys/2])
		}
		for range 300 {
			life()
		}
		assert.LessOrEqual(t, testing.AllocsPerRun(2000, life), 1.0, "%d keys", keys)
	}
	if purgatory.RaceDetector {
		return
	}
	// With more than Spare keeps, the array of watches is one more.
	life := func() {
		op := &probe{}
		_, _ = p.TryCompleteElseWatch(op, time.Hour, all...)
		p.ForceComplete(op)
	}
	for range 100 {
		life()
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(500, life), 2.0)
}

// An operation that is satisfied at its registration costs no allocation but its own.
func TestAnOperationThatIsSatisfiedAtOnceAllocatesNothing(t *testing.T) {
	if purgatory.RaceDetector {
		t.Skip("it makes a sync.Pool drop items")
	}
	p := onManualClock[string](t)
	op := func() { _, _ = p.TryCompleteElseWatch(&probe{ready: true}, time.Hour, "a") }
	op()
	assert.LessOrEqual(t, testing.AllocsPerRun(2000, op), 1.0)
}

// What ends operations together is large, and used again: also if a worker runs the callbacks, or if
// one of them ends its goroutine.
func TestEndingsOnOtherGoroutinesUseTheirMemoryAgain(t *testing.T) {
	if purgatory.RaceDetector {
		t.Skip("it makes a sync.Pool drop items")
	}
	for name, opts := range map[string][]purgatory.Option{"worker": {purgatory.WithCallbacksOnWorkers()}, "goexit": nil} {
		p := onManualClock[string](t, opts...)
		life := func() {
			o := &op{}
			if name == "goexit" {
				o.complete = runtime.Goexit
			}
			_, _ = p.TryCompleteElseWatch(o, time.Hour, "a")
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.CancelForKey("a", nil)
			}()
			<-done
			eventually(t, p.Idle, "nothing runs")
		}
		var before, after runtime.MemStats
		life()
		runtime.ReadMemStats(&before)
		for range 1000 {
			life()
		}
		runtime.ReadMemStats(&after)
		assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/1000, uint64(purgatory.WalkSize)/2, "%s: bytes for each", name)
	}
}

func TestAPurgatoryThatIsNotUsedMakesAtMostTwentyAllocations(t *testing.T) {
	assert.LessOrEqual(t, testing.AllocsPerRun(200, func() {
		p, err := purgatory.New[string]("idle", purgatory.WithWatcherShards(64))
		if err == nil {
			err = p.Close()
		}
		assert.NoError(t, err)
	}), 22.0) // of these, two make the option, and its slice
}

// Await makes at most two allocations if it waits for several keys, three if it waits for more than
// four, and none if its condition is met at once.
func TestAwaitMakesAtMostTwoAllocations(t *testing.T) {
	p := onManualClock[string](t)
	ctx := context.Background()
	yes := func() bool { return true }
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		_ = p.Await(ctx, time.Hour, yes, "a")
	}), 0.0, "ready at once")
	tries := 0
	second := func() bool { tries++; return tries%2 == 0 }
	for keys, most := range map[int]float64{2: 2, purgatory.FewKeys: 2, purgatory.FewKeys + 1: 3, 8: 3} {
		if purgatory.RaceDetector && keys > purgatory.FewKeys {
			continue // the race detector makes a sync.Pool drop items
		}
		all := make([]string, keys)
		for i := range all {
			all[i] = strconv.Itoa(i)
		}
		life := func() { _ = p.Await(ctx, time.Hour, second, all...) }
		for range 100 {
			life()
		}
		assert.LessOrEqual(t, testing.AllocsPerRun(1000, life), most, "%d keys", keys)
	}
	assert.Zero(t, tries%2)
	assert.Zero(t, p.NumDelayed())
}

// A wait for one key is one allocation, that of its operation, from the first moment of the clock on: its channel is that of
// an earlier wait.
func TestAWaitForOneKeyIsOneAllocation(t *testing.T) {
	if purgatory.RaceDetector {
		t.Skip("the race detector makes a sync.Pool drop items")
	}
	p := onManualClock[string](t)
	ctx, tries := context.Background(), 0
	second := func() bool { tries++; return tries%2 == 0 }
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		_ = p.Await(ctx, time.Hour, second, "a")
		_ = p.Await(ctx, time.Hour, second, "a")
	}), 2.0, "AllocsPerRun rounds down")
}

// The callbacks of operations that wait for a worker weigh little: no batch is kept for each.
func TestEndedOperationsThatWaitForAWorkerWeighLittle(t *testing.T) {
	const all = 10_000
	p := open[int](t, purgatory.WithSignalWorkers(1), purgatory.WithDrainTime(0))
	release := make(chan struct{})
	for i := range all {
		submit(t, p, &op{complete: func() { <-release }}, hour, i)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Shutdown(over))
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc-before.HeapAlloc)/all, int64(400), "bytes for each")
	close(release)
	require.NoError(t, p.Shutdown(t.Context()))
}

// A purgatory that is not used costs no goroutine, and little memory.
func TestAPurgatoryThatIsNotUsedIsLight(t *testing.T) {
	before := runtime.NumGoroutine()
	const all = 100
	bytes := uint64(math.MaxUint64)
	for range 5 { // in the least of them no other goroutine allocates
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		allocations := testing.AllocsPerRun(all-1, func() { // on one processor
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			require.NoError(t, p.Close())
		})
		runtime.ReadMemStats(&end)
		assert.LessOrEqual(t, allocations, 20.0)
		bytes = min(bytes, (end.TotalAlloc-start.TotalAlloc)/all)
	}
	assert.LessOrEqual(t, bytes, uint64(2040), "1,984, and what the test itself allocates")
	assert.LessOrEqual(t, runtime.NumGoroutine(), before, "one of an earlier test may end meanwhile")
}

// One for each object, of which each is used now and then: what they use again they share.
func TestAPurgatoryThatWasUsedIsLight(t *testing.T) {
	if purgatory.RaceDetector {
		t.Skip("the race detector makes a sync.Pool drop items")
	}
	const all = 100
	bytes := uint64(math.MaxUint64)
	for range 5 { // in the least of them no other goroutine allocates
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		for range all {
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			use(t, p)
			require.NoError(t, p.Close())
		}
		runtime.ReadMemStats(&end)
		bytes = min(bytes, (end.TotalAlloc-start.TotalAlloc)/all)
	}
	assert.LessOrEqual(t, bytes, uint64(7000), "with the operations, and what the test itself allocates")
}

func TestManyKeysAndAwaitAllocateLittle(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	keys := []int{1, 2, 3, 4, 5, 6, 7}
	many := testing.AllocsPerRun(500, func() {
		o := &op{}
		_, _ = p.TryCompleteElseWatch(o, hour, keys...)
		p.ForceComplete(o)
	})
	assert.LessOrEqual(t, many, 2.0, "the operation; one more under the race detector, which forgets what is pooled")
	tries := 0
	ready := func() bool {
		tries++
		return tries%2 == 0 // yes in the second try, when it has waited
	}
	ctx := t.Context()
	assert.LessOrEqual(t, testing.AllocsPerRun(500, func() { _ = p.Await(ctx, hour, ready, 1) }), 3.0)
}

// An operation costs its own allocation only, whichever observing options are set.
func TestObservingOptionsAllocateNothingPerOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithHistograms(), purgatory.WithKeyStats(512), purgatory.WithSlowCallback(time.Hour))
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	i := 0
	life := func() {
		op := &probe{}
		i++
		_, _ = p.TryCompleteElseWatch(op, time.Second, keys[i%len(keys)], "quiet", "quieter")
		op.ready = true
		p.CheckAndComplete(keys[i%len(keys)])
	}
	for range 1000 { // recycled lists, cells, pools
		life()
	}
	most := 1.0
	if purgatory.RaceDetector { // it makes a sync.Pool drop items
		most = 3
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(2000, life), most)
}
