package purgatory_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// stressed is an operation that reports violations of the contract.
type stressed struct {
	operation.DelayedOperation
	s         *stress
	met       atomic.Bool
	inside    bool // without a lock: the race detector sees an overlap
	completed int
	expired   int
	again     bool // OnComplete submits another operation
	slow      bool
}

func (o *stressed) TryComplete() bool {
	o.enter("TryComplete")
	defer o.leave()
	if o.completed > 0 {
		o.s.broken("TryComplete after OnComplete")
	}
	if o.slow {
		runtime.Gosched()
	}
	return o.met.Load()
}

func (o *stressed) OnComplete() {
	o.enter("OnComplete")
	defer o.leave()
	if o.completed++; o.completed > 1 {
		o.s.broken("OnComplete twice")
	}
	if o.Outcome() == operation.Pending {
		o.s.broken("OnComplete of a pending operation")
	}
	o.s.ended[o.Outcome()].Add(1)
	if o.again {
		o.s.submit(&stressed{s: o.s}, time.Millisecond, 0)
		o.s.p.Signal(1)
		o.s.p.CheckAndComplete(2)
	}
}

func (o *stressed) OnExpiration() {
	o.enter("OnExpiration")
	defer o.leave()
	if o.expired++; o.completed != 1 || o.Outcome() != operation.Expired || o.expired != 1 {
		o.s.broken("OnExpiration out of place")
	}
}

func (o *stressed) enter(what string) {
	if o.inside {
		o.s.broken(what + " overlaps")
	}
	o.inside = true
}

func (o *stressed) leave() { o.inside = false }

type stress struct {
	p        *intPurgatory
	accepted atomic.Int64
	ended    [operation.NumOutcomes]atomic.Int64
	mu       sync.Mutex
	faults   map[string]int
}

func (s *stress) broken(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[what]++
}

func (s *stress) submit(o *stressed, timeout time.Duration, keys ...int) {
	if _, err := s.p.TryCompleteElseWatch(o, timeout, keys...); err == nil {
		s.accepted.Add(1)
	} else if !errors.Is(err, purgatory.ErrClosed) {
		s.broken(err.Error())
	}
}

func TestStressConservesOperationsAndEndsEachOnce(t *testing.T) {
	const keys, goroutines, rounds = 5, 6, 1500
	for name, opts := range map[string][]purgatory.Option{
		"one shard":    {purgatory.WithWatcherShards(1)},
		"few shards":   {purgatory.WithWatcherShards(4), purgatory.WithPurgeInterval(3), purgatory.WithReapInterval(time.Millisecond)},
		"as delivered": nil,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := purgatory.New[int]("stress", append(opts, purgatory.WithTick(50*time.Microsecond), purgatory.WithWorkers(3))...)
			require.NoError(t, err)
			s := &stress{p: p, faults: map[string]int{}}
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(g), 7))
					var mine []*stressed
					for i := range rounds {
						o := &stressed{s: s, again: i%7 == 0, slow: i%3 == 0}
						mine = append(mine, o)
						timeout := []time.Duration{0, 50 * time.Microsecond, time.Millisecond, hour}[rng.IntN(4)]
						if rng.IntN(3) == 0 {
							if _, err := p.TryCompleteElseWatchAt(o, timeout, purgatory.KeyPosition[int]{Key: rng.IntN(keys), Position: rng.Int64N(1000)},
								purgatory.KeyPosition[int]{Key: rng.IntN(keys), Position: purgatory.AnyPosition}); err == nil {
								s.accepted.Add(1)
							}
						} else {
							s.submit(o, timeout, []int{rng.IntN(keys), rng.IntN(keys), 100 + i%50}[:1+rng.IntN(3)]...)
						}
						other := mine[rng.IntN(len(mine))]
						switch rng.IntN(10) {
						case 0, 1:
							other.met.Store(true)
							p.CheckAndComplete(rng.IntN(keys))
						case 2:
							other.met.Store(true)
							p.CheckAndCompleteUpTo(rng.IntN(keys), rng.Int64N(1000))
						case 3:
							p.Signal(rng.IntN(keys))
						case 4:
							p.SignalUpTo(rng.IntN(keys), rng.Int64N(1000))
						case 5:
							p.ForceComplete(other)
						case 6:
							if p.Cancel(other, errGone) && !errors.Is(other.Cause(), errGone) {
								s.broken("the cause is lost")
							}
						case 7:
							if rng.IntN(40) == 0 {
								p.CancelForKey(rng.IntN(keys), errGone)
							}
						case 8:
							p.Extend(other, time.Duration(rng.IntN(200))*time.Microsecond)
						case 9:
							_ = p.Stats()
						}
					}
				})
			}
			closing := inBackground(func() {
				for s.accepted.Load() < goroutines*rounds*9/10 {
					runtime.Gosched()
					time.Sleep(100 * time.Microsecond)
				}
				assert.NoError(t, p.Close())
			})
			wg.Wait()
			closing()
			require.NoError(t, p.Shutdown(aWhile(t)))
			assert.Empty(t, s.faults)
			total := int64(0)
			stats := conserved(t, p)
			for o := range operation.Outcome(operation.NumOutcomes) {
				total += s.ended[o].Load()
				if o != operation.Pending {
					assert.Equal(t, s.ended[o].Load(), stats.Ended(o), o.String())
				}
			}
			assert.Equal(t, s.accepted.Load(), total, "one OnComplete for each that was accepted")
			assert.Equal(t, s.accepted.Load(), stats.Accepted)
			assert.Equal(t, []int64{0, 0, 0, 0}, []int64{stats.Pending, stats.Watched, stats.Keys, stats.Stale})
		})
	}
}

// chaos is a purgatory whose operations wait until one of their keys has reached a level.
// Everything that user code may do it does: it panics, calls runtime.Goexit, checks and
// signals from every method.
type chaos struct {
	p      *intPurgatory
	levels []atomic.Int64
	unruly bool // user code unwinds
	nested bool // user code checks and signals
}

// call names keys to the purgatory in one of the ways that there are. The first is the key
// that has changed.
func (c *chaos) call(keys ...int) {
	switch rand.IntN(8) {
	case 0:
		c.p.CheckAndComplete(keys[0])
	case 1:
		c.p.CheckAndComplete(keys...)
	case 2:
		c.p.Signal(keys[0])
	case 3, 4, 5:
		c.p.Signal(keys...)
	case 6:
		c.p.CheckAndCompleteUpTo(keys[0], c.levels[keys[0]].Load())
	case 7:
		c.p.SignalUpTo(keys[0], c.levels[keys[0]].Load())
	}
}

func (c *chaos) keys(first int) []int {
	keys := []int{first}
	for range rand.IntN(4) {
		keys = append(keys, rand.IntN(len(c.levels)))
	}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i, k := range keys {
		if k == first {
			keys[0], keys[i] = keys[i], keys[0]
		}
	}
	return keys
}

func (c *chaos) unwind(n int) {
	if !c.unruly {
		return
	}
	switch rand.IntN(n) {
	case 0:
		panic("chaos")
	case 1:
		runtime.Goexit()
	}
}

type chaotic struct {
	operation.DelayedOperation
	c      *chaos
	key    int // the one that matters
	level  int64
	busy   atomic.Int32
	done   atomic.Int32
	nested atomic.Int32
	tries  atomic.Int32
}

func (o *chaotic) met() bool { return o.c.levels[o.key].Load() >= o.level }

func (o *chaotic) TryComplete() bool {
	if o.busy.Add(1) != 1 {
		panic("overlap")
	}
	defer o.busy.Add(-1)
	o.tries.Add(1)
	met := o.met() // before anything else
	if o.c.nested && rand.IntN(20) == 0 && o.nested.Add(1) < 4 {
		o.c.call(o.c.keys(rand.IntN(len(o.c.levels)))...)
	}
	if !met {
		o.c.unwind(60)
	}
	return met
}

func (o *chaotic) OnComplete() {
	if o.busy.Add(1) != 1 {
		panic("overlap")
	}
	defer o.busy.Add(-1)
	o.done.Add(1)
	if o.c.nested && rand.IntN(20) == 0 {
		k := rand.IntN(len(o.c.levels))
		o.c.levels[k].Add(1)
		o.c.call(o.c.keys(k)...)
	}
	o.c.unwind(60)
}

func (o *chaotic) OnExpiration() { o.c.unwind(10) }

func (c *chaos) register() *chaotic {
	o := &chaotic{c: c, key: rand.IntN(len(c.levels))}
	o.level = c.levels[o.key].Load() + 1 + rand.Int64N(3)
	keys := c.keys(o.key)
	timeout := hour
	if rand.IntN(30) == 0 {
		timeout = time.Duration(rand.IntN(3)) * time.Millisecond
	}
	returned, err := false, error(nil)
	inBackground(func() {
		if rand.IntN(2) == 0 {
			_, err = c.p.TryCompleteElseWatch(o, timeout, keys...)
		} else {
			at := make([]purgatory.KeyPosition[int], len(keys))
			for i, k := range keys {
				at[i] = purgatory.KeyPosition[int]{Key: k, Position: o.level}
				if k != o.key {
					at[i].Position = purgatory.AnyPosition
				}
			}
			_, err = c.p.TryCompleteElseWatchAt(o, timeout, at...)
		}
		returned = true
	})()
	if err != nil || !returned && o.tries.Load() == 1 { // a runtime.Goexit in the first try
		return nil
	}
	return o
}

func TestChaosLosesNothing(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // panic handlers panic, too
	defer slog.SetDefault(before)
	for name, c := range map[string]*chaos{
		"calm":   {},
		"nested": {nested: true},
		"unruly": {unruly: true},
		"both":   {unruly: true, nested: true},
	} {
		for _, shards := range []int{1, 64} {
			n := name
			if shards == 1 {
				n += ", one shard"
			}
			t.Run(n, func(t *testing.T) { c := chaos{unruly: c.unruly, nested: c.nested}; c.run(t, shards) })
		}
	}
}

func (c *chaos) run(t *testing.T, shards int) {
	c.levels = make([]atomic.Int64, 7)
	c.p = open[int](t,
		purgatory.WithWatcherShards(shards), purgatory.WithWorkers(3), purgatory.WithReapInterval(5*time.Millisecond),
		purgatory.WithPanicHandler(func(v any, _ []byte) {
			if v == "overlap" {
				t.Error("overlap")
			}
			c.unwind(10)
		}),
		purgatory.WithLogger(slog.New(slog.DiscardHandler)))
	var mu sync.Mutex
	var all []*chaotic
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 400 {
				if o := c.register(); o != nil {
					mu.Lock()
					all = append(all, o)
					mu.Unlock()
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			for range 300 {
				inBackground(func() {
					k := rand.IntN(len(c.levels))
					c.levels[k].Add(1)
					c.call(c.keys(k)...)
				})()
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			inBackground(func() { c.p.Inspect(10) })()
			inBackground(func() { c.p.CancelForKey(rand.IntN(len(c.levels)), nil) })()
		}
	})
	wg.Wait()
	lost := func() (lost []*chaotic) {
		for _, o := range all {
			if o.done.Load() == 0 && (o.met() || o.Outcome() != operation.Pending) {
				lost = append(lost, o)
			}
		}
		return lost
	}
	missing := lost()
	for deadline := time.Now().Add(patience / 10 * 9); len(missing) > 0 && time.Now().Before(deadline); missing = lost() {
		time.Sleep(time.Millisecond)
	}
	for _, o := range missing {
		t.Errorf("lost: %v, condition %v, done %v", o.Outcome(), o.met(), o.done.Load())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	inBackground(func() { _ = c.p.Shutdown(ctx) })()
	inBackground(func() { _ = c.p.Close() })()
	long, cancel := context.WithTimeout(context.Background(), patience/10*9)
	defer cancel()
	var err error
	for { // user code may unwind Shutdown
		returned := false
		inBackground(func() { err = c.p.Shutdown(long); returned = true })()
		if returned {
			break
		}
	}
	require.NoError(t, err)
	for _, o := range all {
		if o.done.Load() != 1 {
			t.Errorf("%v, answered %d times", o.Outcome(), o.done.Load())
		}
	}
	assert.Zero(t, c.p.NumDelayed())
	assert.Zero(t, c.p.Watched())
	s := c.p.Stats()
	assert.Zero(t, s.Running)
	assert.Equal(t, s.Accepted, s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
}

// Operations begin and end on several keys, shards and goroutines at once. Afterwards the histograms agree with the counters.
func TestWaitsAgreeWithCounters(t *testing.T) {
	p, err := purgatory.New[int]("observed", purgatory.WithDiagnostics(), purgatory.WithWatcherShards(16))
	require.NoError(t, err)
	var ended atomic.Int64
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for i := range 500 {
				o := &op{try: func() bool { return rand.IntN(4) == 0 }, complete: func() { ended.Add(1) }}
				keys := []int{rand.IntN(50), 50 + rand.IntN(50), 100}[:1+rand.IntN(3)]
				_, err := p.TryCompleteElseWatch(o, time.Duration(rand.IntN(20))*time.Millisecond, keys...)
				assert.NoError(t, err)
				switch i % 7 {
				case 0:
					p.Cancel(o, nil)
				case 1:
					p.ForceComplete(o)
				case 2:
					p.CheckAndComplete(keys[len(keys)-1])
				case 3:
					p.Inspect(5)
				}
			}
		})
	}
	running.Wait()
	held := &probe{}
	_, err = p.TryCompleteElseWatch(held, time.Hour, 1000)
	require.NoError(t, err)
	quiet := func() bool {
		t := p.Stats()
		return t.Pending == 1 && t.Watched == 1 && t.Accepted == ended.Load()+1 && p.AtRest()
	}
	require.Eventually(t, quiet, 30*time.Second, time.Millisecond)

	s := p.Stats()
	assert.Equal(t, s.Accepted, s.Pending+ended.Load())
	for o := operation.Satisfied; o < operation.NumOutcomes; o++ {
		assert.Equal(t, s.Ended(o), s.Waited[o].Count(), "%v", o)
	}
	require.NoError(t, p.Close())
	s = p.Stats()
	assert.EqualValues(t, 1, s.Waited[operation.Closed].Count())
}

func TestStatsHaveWaitsByOutcome(t *testing.T) {
	assert.Nil(t, onManualClock[string](t).Stats().Waited, "without WithDiagnostics")
	p := onManualClock[string](t, purgatory.WithDiagnostics())
	_, err := p.TryCompleteElseWatch(&probe{ready: true}, time.Second, "a")
	require.NoError(t, err)
	satisfied := probed(t, p, time.Minute, "a", "b")
	cancelled := probed(t, p, time.Minute, "b")
	probed(t, p, 100*time.Millisecond, "c")
	probed(t, p, time.Hour, "d")

	p.AdvanceClock(3 * time.Millisecond)
	satisfied.ready = true
	assert.Equal(t, 1, p.CheckAndComplete("b"))
	p.AdvanceClock(time.Second)
	assert.True(t, p.Cancel(cancelled, errors.New("gone")))
	p.AdvanceClock(time.Minute)

	s := p.Stats()
	assert.EqualValues(t, 5, s.Accepted)
	assert.Equal(t, s.Accepted, s.Pending+s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
	for o := range s.Waited {
		if o := operation.Outcome(o); o != operation.Pending {
			assert.Equal(t, s.Ended(o), s.Waited[o].Count(), "%v", o)
		}
	}
	assert.EqualValues(t, 1, s.Waited[operation.Satisfied].Counts[0], "did not have to wait")
	assert.EqualValues(t, 1, s.Waited[operation.Satisfied].Counts[2], "3 ms lie in the bucket up to 4 ms")
	assert.InDelta(t, 0.003, s.Waited[operation.Satisfied].Sum, 1e-9)
	assert.Equal(t, 1024*time.Millisecond, s.Waited[operation.Cancelled].Quantile(0.5), "1.003 s")
	assert.Equal(t, 128*time.Millisecond, s.Waited[operation.Expired].Quantile(0.99))
	require.NoError(t, p.Close())
	s = p.Stats()
	assert.EqualValues(t, 1, s.Closed)
	assert.EqualValues(t, 5, s.Accepted)
}

// What the first key's shard refuses, because the purgatory has closed since the registration began, was not accepted, is in no count but
// that of the refused, and is used.
func TestStatsCountARefusedOperationOnlyAsRejected(t *testing.T) {
	for _, ready := range []bool{false, true} { // one would not have to wait
		p := onManualClock[string](t, purgatory.WithMaxPending(1))
		o := &op{try: func() bool { return p.Close() == nil && ready }}
		_, err := p.TryCompleteElseWatch(o, time.Second, "a", "b")
		require.ErrorIs(t, err, purgatory.ErrClosed)
		assert.Equal(t, operation.Pending, o.Outcome())
		s := p.Stats()
		assert.Zero(t, s.Pending+s.Accepted+s.Closed)
		assert.EqualValues(t, 1, s.RejectedClosed)
		_, err = onManualClock[string](t).TryCompleteElseWatch(o, time.Second, "a")
		require.ErrorIs(t, err, purgatory.ErrUsed)
	}
}

func TestKAFKA9198AMissingCheckShowsAsExpiries(t *testing.T) {
	// State changes and no goroutine calls CheckAndComplete. The counters show it: operations end
	// only by timeout, and no check has tried them.
	p := onManualClock[string](t)
	var met atomic.Bool
	for range 10 {
		submit(t, p, until(&met), time.Second, "a")
	}
	met.Store(true)
	p.AdvanceClock(time.Second)
	s := p.Stats()
	assert.EqualValues(t, 10, s.Expired)
	assert.EqualValues(t, 10, s.Unchecked)
	assert.Zero(t, s.Satisfied)
	assert.Zero(t, s.Checks)
}

// The tries of a registration are no checks, and a try that panics is one in vain.
func TestRegistrationsAreNoChecks(t *testing.T) {
	var seen panics
	p := onManualClock[string](t, seen.option())
	for range 3 {
		submitted(t, p, "a")
	}
	s := p.Stats()
	assert.Equal(t, []int64{0, 0}, []int64{s.Checks, s.WastedChecks})
	p.CheckAndComplete("a")
	s = p.Stats()
	assert.Equal(t, []int64{3, 3}, []int64{s.Checks, s.WastedChecks}, "those of the registrations are not left for the next walk")
	bad := &op{}
	submit(t, p, bad, hour, "b")
	bad.try = func() bool { panic("of the test") }
	p.CheckAndComplete("b")
	s = p.Stats()
	assert.Equal(t, []int64{4, 4}, []int64{s.Checks, s.WastedChecks})
	p.CancelForKey("a", nil)
	p.CancelForKey("b", nil)
	empty(t, p)
}

// Who reads the counts beside checks never finds more that were wasted than were made.
func TestNoMoreChecksAreWastedThanMade(t *testing.T) {
	p := onManualClock[string](t)
	o := submitted(t, p, "a")
	var over atomic.Bool
	wait := inBackground(func() {
		for !over.Load() {
			p.CheckAndComplete("a")
		}
	})
	for range howMany(200_000, 20_000) {
		if s := p.Stats(); !assert.LessOrEqual(t, s.WastedChecks, s.Checks) {
			break
		}
	}
	over.Store(true)
	wait()
	p.ForceComplete(o)
}
