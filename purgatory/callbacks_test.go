package purgatory_test

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Callbacks may call every method that does not block.

func TestCallbacksMayCallEveryNonBlockingMethod(t *testing.T) {
	everything := func(t *testing.T, p, q *stringPurgatory) func() {
		t.Helper()
		n := 0
		return func() {
			n++
			for _, at := range []*stringPurgatory{p, q} {
				for _, key := range []string{"same", "other"} {
					o := &op{}
					_, _ = at.TryCompleteElseWatch(o, hour, key)
					at.Extend(o, 2*hour)
					at.CheckAndComplete(key)
					at.CheckAndCompleteUpTo(key, 3)
					at.Signal(key)
					if n%2 == 0 {
						at.ForceComplete(o)
					} else {
						at.Cancel(o, errGone)
					}
					at.CancelForKey(key+"!", errGone)
					at.AdvanceClock(0)
				}
				_, _, _, _ = at.NumDelayed(), at.Watched(), at.Waiting("same"), at.Stats()
			}
		}
	}
	for _, where := range []string{"first try", "second try", "check", "OnComplete", "OnExpiration"} {
		for _, closes := range []bool{false, true} {
			name := where
			if closes {
				name += ", which closes"
			}
			t.Run(name, func(t *testing.T) {
				p, q := onManualClock[string](t), onManualClock[string](t)
				bystander := submitted(t, p, "same", "other!")
				do := everything(t, p, q)
				call := func() {
					do()
					if closes {
						assert.NoError(t, p.Close())
						assert.NoError(t, q.Close())
						do()
					}
				}
				o := &op{}
				at := map[string]int32{"first try": 1, "second try": 2, "check": 3}[where]
				o.try = func() bool {
					if o.tries.Load() == at {
						call()
					}
					return false
				}
				switch where {
				case "OnComplete":
					o.complete = call
				case "OnExpiration":
					o.expire = call
				}
				_, err := p.TryCompleteElseWatch(o, time.Second, "same")
				if closes && where == "first try" {
					require.ErrorIs(t, err, purgatory.ErrClosed)
				} else {
					require.NoError(t, err)
					p.CheckAndComplete("same")
					p.AdvanceClock(time.Second)
					// A signal worker may be trying the operation now. Then that worker expires it.
					soon(t, "the expiry", func() {
						for o.completed.Load() == 0 {
							runtime.Gosched()
						}
					})
				}
				require.NoError(t, p.Shutdown(aWhile(t)))
				require.NoError(t, q.Shutdown(aWhile(t)))
				assert.LessOrEqual(t, o.completed.Load(), int32(1))
				assert.EqualValues(t, 1, bystander.completed.Load())
				for _, at := range []*stringPurgatory{p, q} {
					empty(t, at)
					conserved(t, at)
				}
			})
		}
	}
}

// depth returns the number of frames on this goroutine's stack, up to 20,000.
func depth() int {
	pcs := make([]uintptr, 20_000)
	return runtime.Callers(0, pcs)
}

// A goroutine holds a lock of its own while CheckAndComplete runs a callback that does not
// take the lock. Neither waits for the other: KAFKA-2821, 6042, 7697, 18129, 20505.
func TestALockHeldAcrossACheckBlocksNobody(t *testing.T) {
	p := onManualClock[string](t)
	var mu sync.Mutex
	var met atomic.Bool
	first, second := until(&met), until(&met)
	inCallback, leave := make(chan struct{}), make(chan struct{})
	first.complete = func() { close(inCallback); <-leave }
	submit(t, p, first, hour, "a")
	wait := inBackground(func() {
		mu.Lock()
		defer mu.Unlock()
		met.Store(true)
		p.CheckAndComplete("a")
	})
	<-inCallback // mu is held, and a callback of a is under way
	assert.False(t, mu.TryLock())
	met.Store(false)
	submit(t, p, second, hour, "a", "b")
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete("a"), "another goroutine completes under the same key")
	ended(t, second, operation.Satisfied)
	last := submitted(t, p, "a")
	assert.True(t, p.ForceComplete(last))
	p.AdvanceClock(hour)
	close(leave)
	wait()
	ended(t, first, operation.Satisfied)
	empty(t, p)
}

func TestSignalDoesNotDeadlockUnderTheCallbacksLock(t *testing.T) {
	p := open[string](t, purgatory.WithoutReaper()) // the reaper would try the operation later
	var mu sync.Mutex
	var met atomic.Bool
	o := until(&met)
	o.complete = func() { mu.Lock(); defer mu.Unlock() }
	submit(t, p, o, hour, "a")
	mu.Lock()
	met.Store(true)
	p.Signal("a") // CheckAndComplete would deadlock
	for range 100 {
		runtime.Gosched()
	}
	mu.Unlock()
	eventually(t, func() bool { return o.completed.Load() == 1 && p.NumDelayed() == 0 }, "it completes")
}

func TestKAFKA8334OtherCodeMayHoldTheUsersLock(t *testing.T) {
	// Kafka's pending flag helped only where the holder of the lock looked at it: while
	// other code held the group's lock, operations waited until their timeout.
	p := onManualClock[string](t)
	var group sync.Mutex // TryComplete takes it, and so does code that does not use the purgatory
	ready := false
	o := &op{try: func() bool { group.Lock(); defer group.Unlock(); return ready }}
	submit(t, p, o, hour, "group")
	group.Lock()
	first := inBackground(func() { p.CheckAndComplete("group") }) // waits for the lock, inside the check
	eventually(t, func() bool { return o.tries.Load() == 3 }, "inside TryComplete")
	ready = true
	assert.Zero(t, p.CheckAndComplete("group"), "leaves its mark, under the lock that the check needs")
	group.Unlock()
	first()
	ended(t, o, operation.Satisfied)
}

func TestKAFKA2821ACheckUnderALockDeadlocksNoOther(t *testing.T) {
	// Two goroutines call CheckAndComplete, each with a lock of its own held. They do not
	// deadlock if no callback takes one of the locks; otherwise they use Signal.
	p := onManualClock[string](t)
	var mine sync.Mutex
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for range 500 {
				var met atomic.Bool
				o := until(&met)
				_, err := p.TryCompleteElseWatch(o, hour, "a", "b")
				assert.NoError(t, err)
				met.Store(true)
				if g == 0 {
					mine.Lock()
					p.CheckAndComplete("a")
					mine.Unlock()
				} else {
					p.CheckAndComplete("b")
				}
				eventually(t, func() bool { return o.completed.Load() == 1 }, "by one of the two")
			}
		})
	}
	wg.Wait()
	empty(t, p)
}

// looped is an operation of a server that keeps its state on one goroutine, without a lock.
type looped struct {
	operation.DelayedOperation
	state *loop
	at    int
	ended func()
}

type loop struct{ reached, tries int } // only the goroutine of the loop may read and write it

func (o *looped) TryComplete() bool { o.state.tries++; return o.state.reached >= o.at }
func (o *looped) OnComplete()       { o.ended() }
func (o *looped) OnExpiration()     {}

// While one goroutine makes all registrations and checks, only it calls TryComplete, whoever
// else ends the operations. The race detector shows a violation.
func TestOnlyWhoRegistersAndChecksTries(t *testing.T) {
	p := open[int](t, purgatory.WithTick(50*time.Microsecond), purgatory.WithDiagnostics())
	const rounds, keys = 5_000, 3
	var state loop
	var pending sync.WaitGroup
	ended := func() { pending.Done() }
	others := make(chan *looped, rounds)
	var enders sync.WaitGroup
	for i := range 3 {
		enders.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for o := range others {
				switch r.IntN(5) {
				case 0:
					p.Cancel(o, nil)
				case 1:
					p.ForceComplete(o)
				case 2:
					p.CancelForKey(r.IntN(keys), nil)
				case 3:
					p.Extend(o, time.Duration(r.IntN(2_000_000)))
				case 4:
					_ = p.Stats()
					p.Waiting(r.IntN(keys))
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range rounds { // the goroutine of the loop
		o := &looped{state: &state, at: state.reached + r.IntN(4), ended: ended}
		pending.Add(1)
		_, err := p.TryCompleteElseWatch(o, time.Duration(r.IntN(300_000)), r.IntN(keys), keys+r.IntN(keys))
		require.NoError(t, err)
		others <- o
		state.reached += r.IntN(2)
		p.CheckAndComplete(r.IntN(keys), keys+r.IntN(keys))
	}
	close(others)
	enders.Wait()
	for i, end := range []func(o *looped){ // whichever way the others have ended, these end in each
		func(o *looped) { p.Extend(o, 0) },
		func(o *looped) { p.Cancel(o, nil) },
		func(o *looped) { p.ForceComplete(o) },
	} {
		pending.Add(1)
		o := &looped{state: &state, at: math.MaxInt, ended: ended}
		_, err := p.TryCompleteElseWatch(o, hour, i)
		require.NoError(t, err)
		inBackground(func() { end(o) })()
	}
	eventually(t, func() bool { return p.Stats().Expired > 0 }, "an expiry")
	require.NoError(t, p.Close())
	pending.Wait()
	s := p.Stats()
	assert.GreaterOrEqual(t, state.tries, rounds)
	assert.Positive(t, s.Satisfied)
	assert.Positive(t, s.Expired)
	assert.Positive(t, s.Cancelled)
	assert.Positive(t, s.Forced)
}

// With one worker, the callbacks of what is signalled run one after the other, and those of a key in order of position.
func TestOneWorkerRunsWhatIsSignalledOneAtATime(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWorkers(1))
	var reached, inside atomic.Int64
	var order []int64 // the worker's
	const n = 1000
	reached.Store(-1)
	for i := range int64(n) {
		position := i * 7919 % n
		o := &op{try: func() bool { return position <= reached.Load() }}
		o.complete = func() {
			assert.EqualValues(t, 1, inside.Add(1), "callbacks overlap")
			order = append(order, position)
			inside.Add(-1)
		}
		_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[int]{Key: 1, Position: position})
		require.NoError(t, err)
	}
	for end := int64(9); end < n; end += 10 {
		reached.Store(end)
		p.SignalUpTo(1, end)
	}
	require.NoError(t, p.Shutdown(t.Context()))
	require.Len(t, order, n)
	assert.IsIncreasing(t, order)
}

// deepest is the maximum, in frames, of the stacks of the goroutines that call look.
type deepest struct{ frames atomic.Int64 }

func (d *deepest) look() {
	for n := int64(depth()); ; {
		was := d.frames.Load()
		if n <= was || d.frames.CompareAndSwap(was, n) {
			return
		}
	}
}

func TestKAFKA3994NoLockIsHeldWhileUserCodeRuns(t *testing.T) {
	// There are two operations. TryComplete and OnComplete of each take the other's lock and
	// check the other's key.
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	var locks [2]sync.Mutex
	var met atomic.Bool
	var ops [2]*op
	for i := range ops {
		o := &op{}
		o.try = func() bool { locks[i].Lock(); defer locks[i].Unlock(); return met.Load() }
		o.complete = func() {
			locks[1-i].Lock()
			locks[1-i].Unlock() //nolint:staticcheck // an empty section shows that the lock is free
			p.CheckAndComplete(1 - i)
			p.CheckAndComplete(i)
		}
		ops[i] = o
		submit(t, p, o, hour, i)
	}
	met.Store(true)
	var wg sync.WaitGroup
	for i := range ops {
		wg.Go(func() { p.CheckAndComplete(i) })
	}
	wg.Wait()
	for _, o := range ops {
		ended(t, o, operation.Satisfied)
	}
}

// User code that nobody expects to call the purgatory may do so, from wherever the purgatory calls it: nothing waits for
// itself, no operation stays held, and each ends once.
func TestUserCodeMayCallBackFromWhereverItIsCalled(t *testing.T) {
	rest := func() {
		time.Sleep(time.Minute) // of the bubble: a Shutdown waits for a callback that calls it a second at most
		synctest.Wait()
	}
	type scene struct {
		p     *stringPurgatory
		first *op
		all   []*op
		late  []*op
		then  func() // what is called back, once
	}
	calls := map[string]func(s *scene){
		"panic":         func(*scene) { panic("of the test") },
		"Goexit":        func(*scene) { runtime.Goexit() },
		"Close":         func(s *scene) { _ = s.p.Close() },
		"check":         func(s *scene) { s.p.CheckAndComplete("k") },
		"signal":        func(s *scene) { s.p.Signal("k", "l") },
		"end itself":    func(s *scene) { s.p.Cancel(s.first, errGone) },
		"end all":       func(s *scene) { s.p.CancelForKey("k", errGone) },
		"let time pass": func(s *scene) { s.p.AdvanceClock(2 * hour) },
		"purge":         func(s *scene) { s.p.AdvanceClock(0) },
		"close, and ask for everything": func(s *scene) {
			_ = s.p.Close()
			_, _, _ = s.p.Stats(), s.p.Inspect(10), s.p.Waiting("k")
		},
		"ask for everything": func(s *scene) { _, _, _ = s.p.Stats(), s.p.Inspect(10), s.p.Waiting("k") },
		"register": func(s *scene) {
			o := &op{}
			if _, err := s.p.TryCompleteElseWatch(o, hour, "k", "l"); err == nil {
				s.late = append(s.late, o)
			}
		},
		"Shutdown that may not wait": func(s *scene) {
			ctx, end := context.WithCancel(context.Background())
			end()
			_ = s.p.Shutdown(ctx)
		},
	}
	logs := func(event string) func(s *scene) purgatory.Option {
		return func(s *scene) purgatory.Option {
			return purgatory.WithLogger(slog.New(onEvent(func(e string) {
				if e == event {
					s.then()
				}
			})))
		}
	}
	handles := func(s *scene) purgatory.Option { return purgatory.WithPanicHandler(func(any, []byte) { s.then() }) }
	panics := func(s *scene) { s.first.try = func() bool { panic("of the test") }; s.p.CheckAndComplete("k") }
	panicsAtTheEnd := func(s *scene) { s.first.complete = func() { panic("of the test") }; s.p.ForceComplete(s.first) }
	none := func(*scene) purgatory.Option { return purgatory.WithPanicHandler(func(any, []byte) {}) }
	places := map[string]struct {
		with func(s *scene) purgatory.Option
		get  func(s *scene)
	}{
		"handler of a try":       {handles, panics},
		"handler of a callback":  {handles, panicsAtTheEnd},
		"logger of a panic":      {logs(purgatory.EventPanic), panics},
		"logger of a callback's": {logs(purgatory.EventPanic), panicsAtTheEnd},
		"logger of Close":        {logs(purgatory.EventClosed), func(s *scene) { _ = s.p.Close() }},
		"a loop over the keys": {none, func(s *scene) {
			for range s.p.Keys() {
				s.then()
			}
		}},
		"TryComplete":  {none, func(s *scene) { s.first.try = func() bool { s.then(); return false }; s.p.CheckAndComplete("k") }},
		"OnComplete":   {none, func(s *scene) { s.first.complete = s.then; s.p.ForceComplete(s.first) }},
		"OnExpiration": {none, func(s *scene) { s.first.expire = s.then; s.p.AdvanceClock(hour) }},
		"TryComplete of a newcomer": {none, func(s *scene) {
			o := &op{try: func() bool { s.then(); return true }}
			_, _ = s.p.TryCompleteElseWatch(o, hour, "n")
		}},
		"condition of a wait": {none, func(s *scene) { _ = s.p.Await(context.Background(), 0, func() bool { s.then(); return true }, "n") }},
	}
	for place, at := range places {
		for name, call := range calls {
			{
				t.Run(name+" from "+place, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := &scene{}
						var met atomic.Bool
						var times atomic.Int32 // a worker may call it, too
						s.then = func() {
							if times.Add(1) == 1 {
								call(s)
							}
						}
						s.p = onManualClock[string](t, at.with(s), purgatory.WithWatcherShards(1), purgatory.WithDiagnostics())
						for range 3 {
							o := until(&met)
							submit(t, s.p, o, hour, "k", "l")
							s.all = append(s.all, o)
						}
						s.first = s.all[0]
						inBackground(func() {
							defer func() { _ = recover() }() // of a panic that is its caller's
							at.get(s)
						})()
						rest()
						require.Positive(t, times.Load(), "it was called")
						s.first.try = met.Load
						met.Store(true)
						s.p.CheckAndComplete("k")
						rest()
						for i, o := range s.all {
							assert.NotEqual(t, operation.Pending, o.Outcome(), "operation %d", i)
							assert.EqualValues(t, 1, o.completed.Load(), "operation %d", i)
						}
						require.NoError(t, s.p.Close())
						rest()
						for _, o := range s.late {
							assert.EqualValues(t, 1, o.completed.Load())
						}
						ctx, end := context.WithTimeout(context.Background(), hour)
						defer end()
						assert.NoError(t, s.p.Shutdown(ctx), "everybody is answered")
						assert.Zero(t, conserved(t, s.p).Pending)
						empty(t, s.p)
					})
				})
			}
		}
	}
}
