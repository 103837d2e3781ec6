package purgatory_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
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
	for name, end := range map[string]func(p *purgatory.Purgatory[string], key string, ops []*probe){
		"CheckAndComplete": func(p *purgatory.Purgatory[string], key string, ops []*probe) {
			for _, op := range ops {
				op.ready = true
			}
			p.CheckAndComplete(key)
		},
		"CheckAndComplete in vain, ForceComplete": func(p *purgatory.Purgatory[string], key string, ops []*probe) {
			p.CheckAndComplete(key)
			for _, op := range ops {
				p.ForceComplete(op)
			}
		},
		"expiry": func(p *purgatory.Purgatory[string], _ string, ops []*probe) {
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

// Where nobody waits, no verb that ends operations allocates.
func TestEndingNobodyAllocatesNothing(t *testing.T) {
	p, other := onManualClock[string](t), onManualClock[string](t)
	ended, fresh, foreign := submitted(t, p, "a"), &op{}, submitted(t, other, "a")
	p.ForceComplete(ended)
	for name, end := range map[string]func(){
		"CheckAndComplete": func() { p.CheckAndComplete("a", "b") },
		"Signal":           func() { p.Signal("a", "b") },
		"CancelForKey":     func() { p.CancelForKey("a", errGone) },
		"ForceComplete":    func() { p.ForceComplete(ended); p.ForceComplete(fresh); p.ForceComplete(foreign) },
		"Cancel, ended":    func() { p.Cancel(ended, errGone) },
		"Cancel, fresh":    func() { p.Cancel(fresh, errGone) },
		"Cancel, foreign":  func() { p.Cancel(foreign, errGone) },
	} {
		assert.Zero(t, testing.AllocsPerRun(100, end), name)
	}
}

// In a steady state submitting an operation allocates nothing, and with more keys than fit on the stack an array of keys.
func TestSubmittingAllocatesAtMostOnceBesideTheOperation(t *testing.T) {
	p := onManualClock[string](t)
	all := make([]string, 40)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	for keys, most := range map[int]float64{1: 1, 2: 1, purgatory.FewKeys: 1, purgatory.FewKeys + 1: 2, 40: 2} {
		life := func() {
			op := &probe{}
			_, _ = p.TryCompleteElseWatch(op, time.Hour, all[:keys]...)
			op.ready = true
			p.CheckAndComplete(all[keys/2])
		}
		for range 300 {
			life()
		}
		assert.LessOrEqual(t, testing.AllocsPerRun(2000, life), most, "%d keys", keys)
	}
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

// Await allocates nothing if its condition is met at once. A wait for one key is one allocation, that of its operation, since its channel is
// that of an earlier wait; more keys than fit on the stack need one more.
func TestAnAwaitThatBlocksIsOneAllocation(t *testing.T) {
	if purgatory.RaceDetector {
		t.Skip("it makes a sync.Pool drop items")
	}
	p := open[string](t)
	ctx := context.Background()
	yes := func() bool { return true }
	one := func() (int, bool) { return 1, true }
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = p.Await(ctx, time.Hour, yes, "a") }), "ready at once")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = purgatory.AwaitValue(ctx, p, time.Hour, one, "a") }), "with a value")
	tries := 0
	second := func() bool { tries++; return tries%2 == 0 }
	for keys, most := range map[int]float64{1: 1, 2: 1, purgatory.FewKeys: 1, purgatory.FewKeys + 1: 2, 8: 2} {
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
	value := func() (int, bool) { return 1, second() }
	life := func() { _, _ = purgatory.AwaitValue(ctx, p, time.Hour, value, "a") }
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, life), 2.0, "with a value")
	assert.Zero(t, tries%2)
	assert.Zero(t, p.NumDelayed())
	if strconv.IntSize == 64 {
		assert.EqualValues(t, 128, purgatory.AwaitSize)
	}
}

// The callbacks of operations that wait for a worker weigh little: no batch is kept for each.
func TestEndedOperationsThatWaitForAWorkerWeighLittle(t *testing.T) {
	const all = 10_000
	p := open[int](t, purgatory.WithWorkers(1))
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
	assert.LessOrEqual(t, bytes, uint64(2400), "2,240, and what the test itself allocates")
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
	assert.LessOrEqual(t, bytes, uint64(8250), "with the operations, and what the test itself allocates")
}

// With WithDiagnostics, too, an operation costs its own allocation only.
func TestDiagnosticsAllocateNothingPerOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithDiagnostics())
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	i := 0
	life := func() {
		op := &probe{}
		i++
		_, _ = p.TryCompleteElseWatch(op, time.Second, keys[i%len(keys)])
		op.ready = true
		p.CheckAndComplete(keys[i%len(keys)])
	}
	for range 1000 { // recycled lists
		life()
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(2000, life), 1.0)
}
