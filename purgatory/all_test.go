package purgatory_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// flagged is an operation that waits until its flag is set.
type flagged struct {
	operation.DelayedOperation
	flag  *atomic.Bool
	tries atomic.Int32
	done  func()
}

func (f *flagged) TryComplete() bool { f.tries.Add(1); return f.flag.Load() }
func (f *flagged) OnExpiration()     {}
func (f *flagged) OnComplete() {
	if f.done != nil {
		f.done()
	}
}

func wait(t *testing.T, p *purgatory.DelayedOperationPurgatory[int], f *flagged, keys ...int) *flagged {
	t.Helper()
	completed, err := p.TryCompleteElseWatch(f, time.Hour, keys...)
	require.NoError(t, err)
	require.False(t, completed)
	return f
}

func TestKeysYieldsTheKeysThatOperationsWaitFor(t *testing.T) {
	for _, shards := range []int{1, 64} {
		p := open[int](t, purgatory.WithWatcherShards(shards))
		assert.Empty(t, slices.Collect(p.Keys()))
		var set atomic.Bool
		for i := range 3000 {
			wait(t, p, &flagged{flag: &set}, i, i%10)
		}
		keys := slices.Sorted(p.Keys())
		require.Len(t, keys, 3000)
		assert.Equal(t, []int{0, 1, 2999}, []int{keys[0], keys[1], keys[2999]})
		for range p.Keys() {
			break
		}
		set.Store(true)
		for key := range p.Keys() { // no lock is held in the body
			p.CheckAndComplete(key)
		}
		p.AdvanceClock(0)
		assert.Zero(t, p.NumKeys())
	}
}

func TestKeysYieldsEveryKeyThatStaysThroughout(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(1))
	var stay, set atomic.Bool
	const staying = 400
	for i := range staying {
		wait(t, p, &flagged{flag: &stay}, -1-i)
	}
	for _, coming := range []int{0, 20_000} { // operations that come during the walk
		for i := range coming {
			wait(t, p, &flagged{flag: &set}, i)
		}
		met := map[int]bool{}
		step := 0
		for key := range p.Keys() {
			if key < 0 {
				met[key] = true
			}
			if step++; step == 150 {
				set.Store(coming > 0)
				for i := range 20_000 {
					if coming > 0 {
						p.CheckAndComplete(i)
					} else {
						wait(t, p, &flagged{flag: &set}, i)
					}
				}
			}
		}
		assert.Len(t, met, staying)
		set.Store(true)
		p.CheckAndCompleteAll()
		set.Store(false)
	}
	assert.Equal(t, staying, p.NumKeys())
	stay.Store(true)
	assert.Equal(t, staying, p.CheckAndCompleteAll())
}

func TestACheckOfAllTriesEveryWaitingOperation(t *testing.T) {
	for name, all := range map[string]func(p *purgatory.DelayedOperationPurgatory[int]) int{
		"check":               (*purgatory.DelayedOperationPurgatory[int]).CheckAndCompleteAll,
		"signal":              func(p *purgatory.DelayedOperationPurgatory[int]) int { p.SignalAll(); return 0 },
		"check, keys counted": (*purgatory.DelayedOperationPurgatory[int]).CheckAndCompleteAll,
	} {
		t.Run(name, func(t *testing.T) {
			var options []purgatory.Option
			if name == "check, keys counted" {
				options = append(options, purgatory.WithKeyStats(16))
			}
			p := open[int](t, options...)
			var set atomic.Bool
			var done atomic.Int64
			const n = 20_000
			for i := range n {
				f := &flagged{flag: &set, done: func() { done.Add(1) }}
				if i%5 == 0 { // some wait for a position
					_, err := p.TryCompleteElseWatchAt(f, time.Hour, purgatory.KeyPosition[int]{Key: i % 300, Position: int64(i)})
					require.NoError(t, err)
				} else {
					wait(t, p, f, i, i%300)
				}
			}
			assert.Zero(t, all(p))
			set.Store(true)
			if ended := all(p); name != "signal" {
				assert.Equal(t, n, ended)
			}
			eventually(t, func() bool { return done.Load() == n }, "done.Load() == n")
			p.AdvanceClock(0) // purge
			assert.Zero(t, p.Watched())
			assert.Zero(t, all(p), "of nothing")
		})
	}
}

func TestACheckOfAllTriesEachKeyInOrder(t *testing.T) {
	p := open[int](t)
	var set atomic.Bool
	var order []int
	for i := range 1000 {
		wait(t, p, &flagged{flag: &set, done: func() { order = append(order, i) }}, 7)
	}
	set.Store(true)
	assert.Equal(t, 1000, p.CheckAndCompleteAll())
	assert.True(t, slices.IsSorted(order))
}

func TestSignalAllCoalescesUntilAWorkerBegins(t *testing.T) {
	p := onManualClock[int](t)
	held := purgatory.HoldWorkers(t, p)
	var set atomic.Bool
	f := wait(t, p, &flagged{flag: &set}, 1)
	before := f.tries.Load()
	for range 10 {
		p.SignalAll()
	}
	held.Work()
	assert.Equal(t, before+1, f.tries.Load())
	p.SignalAll()
	held.Work()
	assert.Equal(t, before+2, f.tries.Load())
	set.Store(true)
	p.CheckAndCompleteAll()
}

// A callback that blocks holds up its own worker only.
func TestABlockedCallbackDoesNotStopSignalAll(t *testing.T) {
	p := open[int](t, purgatory.WithSignalWorkers(2))
	var set atomic.Bool
	var done atomic.Int64
	leave := make(chan struct{})
	for i := range 2000 {
		wait(t, p, &flagged{flag: &set, done: func() {
			if done.Add(1) == 100 {
				<-leave
			}
		}}, i)
	}
	set.Store(true)
	p.SignalAll()
	eventually(t, func() bool { return done.Load() == 2000 }, "done.Load() == 2000")
	close(leave)
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "p.NumDelayed() == 0")
}

// The worker that marks the keys lets others run after each chunk of them.
func TestOthersRunWhileAllKeysAreSignalled(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	keys := howMany(100_000, 30_000)
	p := open[int](t)
	var set atomic.Bool
	for i := range keys {
		wait(t, p, &flagged{flag: &set}, i)
	}
	var signals int64
	var other sync.WaitGroup
	other.Go(func() {
		for signals == 0 {
			signals = p.Stats().Signals
			runtime.Gosched()
		}
	})
	p.SignalAll()
	other.Wait()
	assert.Less(t, signals, int64(keys/10))
}

// Operations that register during a check of all keys see the change, or are tried.
func TestACheckOfAllMissesNoRegistration(t *testing.T) {
	for name, all := range map[string]func(p *purgatory.DelayedOperationPurgatory[int]){
		"check":  func(p *purgatory.DelayedOperationPurgatory[int]) { p.CheckAndCompleteAll() },
		"signal": (*purgatory.DelayedOperationPurgatory[int]).SignalAll,
	} {
		t.Run(name, func(t *testing.T) {
			p := open[int](t)
			for round := range 50 {
				var set atomic.Bool
				var done atomic.Int64
				var wg sync.WaitGroup
				for g := range 4 {
					wg.Go(func() {
						for i := range 100 {
							_, err := p.TryCompleteElseWatch(&flagged{flag: &set, done: func() { done.Add(1) }}, time.Hour, g*1000+i, round)
							assert.NoError(t, err)
						}
					})
				}
				runtime.Gosched()
				set.Store(true)
				all(p)
				wg.Wait()
				eventually(t, func() bool { return done.Load() == 400 }, "done.Load() == 400")
			}
			p.AdvanceClock(0)
			assert.Zero(t, p.NumKeys())
		})
	}
}

func TestHintReportsWhetherAnOperationWaits(t *testing.T) {
	p := open[int](t)
	var set atomic.Bool
	var done atomic.Int64
	assert.False(t, p.SignalUpTo(1, purgatory.EveryPosition))
	_, err := p.TryCompleteElseWatchAt(&flagged{flag: &set, done: func() { done.Add(1) }}, time.Hour, purgatory.KeyPosition[int]{Key: 1, Position: 10})
	require.NoError(t, err)
	set.Store(true)
	assert.True(t, p.SignalUpTo(1, 9), "somebody waits, though for more")
	assert.True(t, p.SignalUpTo(1, 10))
	eventually(t, func() bool { return done.Load() == 1 }, "done.Load() == 1")
	assert.EqualValues(t, 3, p.Stats().Signals)
	assert.Zero(t, testing.AllocsPerRun(100, func() { p.SignalUpTo(2, 5) }))
}

// When Close has ended every operation, SignalAll makes no work.
func TestSignalAllAfterCloseAsksForNoWorker(t *testing.T) {
	p := onManualClock[string](t)
	held := purgatory.HoldWorkers(t, p)
	submitted(t, p, "a")
	p.SignalAll()
	assert.True(t, held.Waiting())
	held.Work()
	require.NoError(t, p.Close())
	held.Work() // the callback of what Close has ended
	p.SignalAll()
	assert.False(t, held.Waiting())
}
