package purgatory

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// Programs make a purgatory for each of their objects.
func TestAPurgatoryOnASharedTimerIsLight(t *testing.T) {
	shared, err := timer.NewSystemTimer()
	require.NoError(t, err)
	defer shared.Stop()
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		p, err := New[int]("light", WithTimer(shared), WithoutReaper())
		require.NoError(t, err)
		_ = p.Close()
	}), 20.0)
}

// In a steady state ending operations allocates nothing. (A cancellation allocates its
// cause, once for all operations that it ends.) TestObservingOptionsAllocateNothingPerOperation counts what
// submitting them allocates.
func TestEndingAnOperationAllocatesNothing(t *testing.T) {
	const runs, each = 50, 10
	for name, end := range map[string]func(p *DelayedOperationPurgatory[string], key string, ops []*probe){
		"CheckAndComplete": func(p *DelayedOperationPurgatory[string], key string, ops []*probe) {
			for _, op := range ops {
				op.ready = true
			}
			p.CheckAndComplete(key)
		},
		"CheckAndComplete in vain, ForceComplete": func(p *DelayedOperationPurgatory[string], key string, ops []*probe) {
			p.CheckAndComplete(key)
			for _, op := range ops {
				p.ForceComplete(op)
			}
		},
		"expiry": func(p *DelayedOperationPurgatory[string], _ string, ops []*probe) {
			for _, op := range ops {
				p.Extend(op, 0)
			}
			p.AdvanceClock(time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newManual(t)
			var keys []string
			var batches [][]*probe
			for i := range runs + 1 { // the first is not counted
				keys = append(keys, strconv.Itoa(i))
				batches = append(batches, nil)
				for range each {
					batches[i] = append(batches[i], submit(t, p, time.Hour, keys[i], "quiet", "quieter"))
				}
			}
			i := 0
			allocs := testing.AllocsPerRun(runs, func() {
				end(p, keys[i], batches[i])
				i++
			})
			if !RaceDetector { // it makes a sync.Pool drop items
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
	p := newManual(t, WithWatcherShards(2))
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
	p := newManual(t)
	all := make([]string, 40)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	for _, keys := range []int{1, 2, fewKeys, fewKeys + 1, 8} {
		if RaceDetector && keys > fewKeys {
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
	if RaceDetector {
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
	if RaceDetector {
		t.Skip("it makes a sync.Pool drop items")
	}
	p := newManual(t)
	op := func() { _, _ = p.TryCompleteElseWatch(&probe{ready: true}, time.Hour, "a") }
	op()
	assert.LessOrEqual(t, testing.AllocsPerRun(2000, op), 1.0)
}

// leaves is an operation whose OnComplete ends its goroutine.
type leaves struct{ operation.DelayedOperation }

func (*leaves) TryComplete() bool { return false }
func (*leaves) OnComplete()       { runtime.Goexit() }
func (*leaves) OnExpiration()     {}

// What ends operations together is large, and used again: also if a worker runs the callbacks, or if
// one of them ends its goroutine.
func TestEndingsOnOtherGoroutinesUseTheirMemoryAgain(t *testing.T) {
	if RaceDetector {
		t.Skip("it makes a sync.Pool drop items")
	}
	for name, opts := range map[string][]Option{"worker": {WithCallbacksOnWorkers()}, "goexit": nil} {
		p := newManual(t, opts...)
		op := func() {
			var op operation.Operation = &probe{}
			if name == "goexit" {
				op = &leaves{}
			}
			_, _ = p.TryCompleteElseWatch(op, time.Hour, "a")
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.CompleteForKey("a")
			}()
			<-done
			for !p.idle() {
				runtime.Gosched()
			}
		}
		var before, after runtime.MemStats
		op()
		runtime.ReadMemStats(&before)
		for range 1000 {
			op()
		}
		runtime.ReadMemStats(&after)
		assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/1000, uint64(unsafe.Sizeof(walk[string]{}))/2, "%s: bytes for each", name)
	}
}

// Await makes at most two allocations if it waits for several keys, three if it waits for more than
// four, and none if its condition is met at once.
func TestAwaitMakesAtMostTwoAllocations(t *testing.T) {
	p := newManual(t)
	ctx := context.Background()
	yes := func() bool { return true }
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		_ = p.Await(ctx, time.Hour, yes, "a")
	}), 0.0, "ready at once")
	tries := 0
	second := func() bool { tries++; return tries%2 == 0 }
	for keys, most := range map[int]float64{2: 2, fewKeys: 2, fewKeys + 1: 3, 8: 3} {
		if RaceDetector && keys > fewKeys {
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
	if !RaceDetector {
		all := make([]string, 40)
		read := func(context.Context) (int, bool, error) { return 0, true, nil }
		assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _, _ = AwaitRead(ctx, p, 0, read, all...) }), 1.0, "a read without a wait")
	}
	assert.Zero(t, tries%2)
	assert.Zero(t, p.NumDelayed())
}
