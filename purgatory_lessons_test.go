package purgatory_test

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// What went wrong for others: one test for each lesson that concerns the library,
// named for it, with the number of the public issue.

func TestLessonAChangeThatMeetsARunningCheckIsNotMissedKAFKA6653(t *testing.T) {
	// A try-lock on the operation, to dodge a deadlock, missed the change that arrived
	// while another held the lock.
	for range 300 {
		p := onManualClock[string](t)
		var a, b atomic.Bool
		o := &op{try: func() bool { ok := a.Load(); runtime.Gosched(); return ok && b.Load() }}
		submit(t, p, o, hour, "a", "b")
		var wg sync.WaitGroup
		wg.Go(func() { a.Store(true); p.CheckAndComplete("a") })
		wg.Go(func() { b.Store(true); p.CheckAndComplete("b") })
		wg.Wait()
		ended(t, o, operation.Satisfied)
	}
}

func TestLessonALockOfTheUsersMayBeTakenByOtherCodeKAFKA8334(t *testing.T) {
	// The pending flag helped only where the lock's holder looked at it: while other
	// code held the group's lock, operations hung until their timeout.
	p := onManualClock[string](t)
	var group sync.Mutex // taken by TryComplete, and by code that knows of no purgatory
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

func TestLessonRegisteringDoesNotTryOncePerKeyKAFKA1952(t *testing.T) {
	p := onManualClock[int](t)
	keys := make([]int, 1000)
	for i := range keys {
		keys[i] = i
	}
	assert.EqualValues(t, 2, submitted(t, p, keys...).tries.Load())
}

func TestLessonCheckThenParkLooksASecondTimeRocketMQ7359(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	o := &op{}
	o.try = func() bool {
		seen := met.Load()
		if o.tries.Load() == 1 { // the change comes after the first look, before it is watched
			met.Store(true)
			assert.Zero(t, p.CheckAndComplete("a"))
		}
		return seen
	}
	completed, err := p.TryCompleteElseWatch(o, hour, "a")
	require.NoError(t, err)
	assert.True(t, completed)
}

func TestLessonAForgottenCheckShowsAsExpiriesKAFKA9198(t *testing.T) {
	// State changed where nobody called CheckAndComplete. The library cannot know, but its
	// counters tell: ended only by timeout, and never once tried in between.
	p := onManualClock[string](t)
	var met atomic.Bool
	for range 10 {
		submit(t, p, until(&met), time.Second, "a")
	}
	met.Store(true)
	p.AdvanceClock(time.Second)
	s := p.Stats()
	assert.EqualValues(t, 10, s.Expired)
	assert.Zero(t, s.Satisfied)
	assert.Zero(t, s.Checks)
}

func TestLessonNoLockIsHeldWhileUserCodeRunsKAFKA3994(t *testing.T) {
	// Two operations, each of whose TryComplete and OnComplete take the other's lock and
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

func TestLessonACheckUnderTheCallersLockDoesNotDeadlockOthersKAFKA2821(t *testing.T) {
	// One goroutine holds its own lock across CheckAndComplete while another completes. It
	// goes well as long as the callback needs no such lock; for the others there is Signal.
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

func TestLessonAnOperationIsNotAddedToAListThatWasRemovedKAFKA2253(t *testing.T) {
	// A key's list becomes empty and is forgotten while another operation is put there.
	p := open[int](t, purgatory.WithWatcherShards(1))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				var met atomic.Bool
				o := until(&met)
				_, err := p.TryCompleteElseWatch(o, hour, 1)
				assert.NoError(t, err)
				met.Store(true)
				p.CheckAndComplete(1)
				eventually(t, func() bool { return o.Outcome() == operation.Satisfied }, "found under its key")
			}
		})
	}
	wg.Wait()
	empty(t, p)
}

func TestLessonEmptyKeysAreForgottenKAFKA2160(t *testing.T) {
	p := onManualClock[int](t)
	for i := range 20_000 {
		o := &op{}
		submit(t, p, o, time.Second, i, -i-1)
		switch i % 3 {
		case 0:
			p.ForceComplete(o)
		case 1:
			p.CancelForKey(i, nil)
		default:
			p.AdvanceClock(time.Second)
		}
	}
	p.AdvanceClock(time.Second)
	assert.Zero(t, p.Keys())
}

func TestLessonDeferredCompletionsAreDrainedOnEveryPathKAFKA15380(t *testing.T) {
	// A chain whose callbacks were queued is finished before the verb that began it
	// returns, whichever verb that is.
	for name, begin := range map[string]func(p *intPurgatory, o *chained){
		"force":  func(p *intPurgatory, o *chained) { p.ForceComplete(o) },
		"cancel": func(p *intPurgatory, o *chained) { p.Cancel(o, nil) },
		"key":    func(p *intPurgatory, _ *chained) { p.CancelForKey(7, nil) },
		"expire": func(p *intPurgatory, _ *chained) { p.AdvanceClock(2 * hour) },
		"close":  func(p *intPurgatory, _ *chained) { assert.NoError(t, p.Close()) },
	} {
		p := onManualClock[int](t)
		c := &chain{p: p, length: 500, reached: -1, key: func(int) int { return 7 }}
		c.end = func(c *chain, o *chained) { c.p.ForceComplete(o) }
		first := &chained{chain: c}
		submit(t, p, first, hour, 7)
		if name == "close" {
			c.length = 0 // nothing new is accepted
		}
		begin(p, first)
		assert.EqualValues(t, c.length+1, conserved(t, p).Accepted, name)
		assert.Zero(t, p.NumDelayed(), name)
	}
}

func TestLessonExpiryDoesNotRunBesideACheckKAFKA19312(t *testing.T) {
	p := onManualClock[string](t)
	o := newHeldOp()
	submit(t, p, o, time.Second, "a")
	proceed := o.holdInCheck(p, "a")
	p.AdvanceClock(hour)
	pending(t, &o.op) // not while TryComplete runs
	assert.Equal(t, 1, proceed(false))
	ended(t, &o.op, operation.Expired)
}

func TestLessonRegisteringWhatIsCompletedAlreadyKAFKA18027(t *testing.T) {
	p := onManualClock[string](t)
	o := submitted(t, p, "a")
	p.ForceComplete(o)
	_, err := p.TryCompleteElseWatch(o, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrUsed)
	ended(t, o, operation.Forced)
	empty(t, p)
}

func TestLessonAThrowingOperationDoesNotBreakItsNeighboursKAFKA17234(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	var met atomic.Bool
	bad := &op{}
	bad.try = func() bool {
		if met.Load() {
			panic("thrown")
		}
		return false
	}
	first, last := until(&met), until(&met)
	submit(t, p, first, hour, "a")
	submit(t, p, bad, hour, "a")
	submit(t, p, last, hour, "a")
	met.Store(true)
	assert.NotPanics(t, func() { assert.Equal(t, 2, p.CheckAndComplete("a")) })
	ended(t, first, operation.Satisfied)
	ended(t, last, operation.Satisfied)
	assert.EqualValues(t, 1, told.n.Load())
}

func TestLessonTheReaperOutlivesWhatIsThrownAtIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told panics
		p, err := purgatory.New[string]("test", told.option())
		require.NoError(t, err)
		for range 20 {
			submit(t, p, &op{complete: func() { panic("thrown") }, expire: runtime.Goexit}, time.Second, "a")
			time.Sleep(time.Second)
		}
		last := &op{}
		submit(t, p, last, time.Second, "a")
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		ended(t, last, operation.Expired)
		assert.EqualValues(t, 20, told.n.Load())
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// large is an operation whose memory counts.
type large struct {
	operation.DelayedOperation
	_   [64 << 10]byte
	yes bool
}

func (o *large) TryComplete() bool { return o.yes }
func (o *large) OnComplete()       {}
func (o *large) OnExpiration()     {}

func TestLessonAQuietKeyDoesNotPinWhatHasEndedKAFKA664(t *testing.T) {
	// Nor does the timer, however far away its timeout was (KAFKA-19389, KoP #1739).
	clockless := onManualClock[int](t)
	ends := map[string]func(o *large){
		"checked":   func(o *large) { o.yes = true; clockless.CheckAndComplete(1) },
		"forced":    func(o *large) { clockless.ForceComplete(o) },
		"cancelled": func(o *large) { clockless.Cancel(o, errGone) },
		"for key":   func(*large) { clockless.CancelForKey(1, errGone) },
	}
	for name, end := range ends {
		for _, ordered := range []bool{false, true} {
			submitted(t, clockless, 2, 3) // others wait for the quiet keys, and go on waiting
			ended := func() weak.Pointer[large] {
				o := &large{}
				var err error
				if ordered {
					at := make([]purgatory.At[int], 200)
					for i := range at {
						at[i] = purgatory.At[int]{Key: 1 + i, Position: int64(i)}
					}
					_, err = clockless.TryCompleteElseWatchAt(o, math.MaxInt64, at...)
				} else {
					_, err = clockless.TryCompleteElseWatch(o, math.MaxInt64, 1, 2, 3, 4, 5, 6, 7)
				}
				require.NoError(t, err)
				end(o)
				require.NotEqual(t, operation.Pending, o.Outcome())
				return weak.Make(o)
			}()
			for range 5 {
				if ended.Value() == nil {
					break
				}
				runtime.GC()
			}
			assert.Nil(t, ended.Value(), "%s, ordered %v: without a purge, and without an event on its keys", name, ordered)
		}
	}
	assert.Equal(t, 8, clockless.NumDelayed())
}

func TestLessonAPurgeDoesNotWalkOverWhatIsPendingKAFKA1441(t *testing.T) {
	// 340,809 watchers were walked over while expiry stood still. Here a sweep does not look
	// at those that wait: it tries nobody and purges what is stale, that is nothing.
	p := onManualClock[int](t)
	for i := range 20_000 {
		submitted(t, p, i%500)
	}
	for range 1000 {
		p.AdvanceClock(0)
	}
	s := p.Stats()
	assert.Zero(t, s.Checks)
	assert.Zero(t, s.Purges)
	assert.EqualValues(t, 20_000, s.Watched)
}

func TestLessonWhatIsLeftToThePurgeIsBounded(t *testing.T) {
	// Kafka's purge interval bounded nothing: millions of stale watchers gathered between
	// two looks, and below the threshold they stayed for ever.
	const limit = 10
	p := open[int](t, purgatory.WithPurgeInterval(limit), purgatory.WithoutReaper(), purgatory.WithWatcherShards(4))
	var wg sync.WaitGroup
	var most atomic.Int64
	for g := range 4 {
		wg.Go(func() {
			for i := range 1500 {
				o := &op{}
				_, err := p.TryCompleteElseWatch(o, hour, g, 10+i%20, 40+i%20, 70+i%20)
				assert.NoError(t, err)
				p.ForceComplete(o)
				if stale := p.Stats().Stale; stale > most.Load() {
					most.Store(stale)
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, most.Load(), int64(limit+4), "who finds that there is no room has been counted for a moment")
	assert.Zero(t, p.NumDelayed())
	assert.EqualValues(t, p.Stats().Stale, p.Watched())
	empty(t, p) // one sweep takes out all
}

func TestLessonGaugesTellOperationsFromEntriesKAFKA1616(t *testing.T) {
	p := onManualClock[int](t)
	submitted(t, p, 1, 2, 3)
	s := p.Stats()
	assert.Equal(t, []int64{1, 3, 3}, []int64{s.Pending, s.Watched, s.Keys})
}

func TestLessonManyPurgatoriesMayShareOneTimerKoP322(t *testing.T) {
	// One purgatory per connection exhausted threads. With a shared timer and the reaper off a
	// purgatory has no goroutine.
	p := open[int](t)
	before := runtime.NumGoroutine()
	q := onManualClock[int](t)
	for i := range 100 {
		submitted(t, onManualClock[int](t), i)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
	_, _ = p, q
}

func TestLessonARequestThatCompletesRacesItsExpiry(t *testing.T) {
	// Kafka's published load test uses the timeout where it means the latency, so that every
	// completion races its expiry. It must be decided once, each time.
	p := open[int](t, purgatory.WithTick(10*time.Microsecond))
	outcomes := map[operation.Outcome]int{}
	for i := range 1500 {
		var met atomic.Bool
		o := until(&met)
		submitOrNot(t, p, o, 50*time.Microsecond, i%3)
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; {
			runtime.Gosched()
		}
		met.Store(true)
		p.CheckAndComplete(i % 3)
		eventually(t, func() bool { return o.completed.Load() == 1 }, "one of the two")
		outcomes[o.Outcome()]++
	}
	assert.Equal(t, 1500, outcomes[operation.Satisfied]+outcomes[operation.Expired])
	eventually(t, func() bool { return p.Stats().Satisfied == int64(outcomes[operation.Satisfied]) }, "the counters agree")
}

func submitOrNot(t *testing.T, p *intPurgatory, o *op, timeout time.Duration, key int) {
	t.Helper()
	_, err := p.TryCompleteElseWatch(o, timeout, key)
	require.NoError(t, err)
}
