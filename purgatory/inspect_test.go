package purgatory_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
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

// Where there are more keys than the sample has room for, Inspect shows operations that wait for
// positions, too.
func TestInspectShowsThoseThatWaitForPositionsOfManyKeys(t *testing.T) {
	p, err := purgatory.New[int](t.Name())
	require.NoError(t, err)
	defer p.Close()
	for key := range 10_000 {
		_, err := p.TryCompleteElseWatchAt(&op{}, time.Hour, purgatory.KeyPosition[int]{Key: key, Position: 7})
		require.NoError(t, err)
	}
	assert.Len(t, p.Inspect(0, 10).Oldest, 10)
}

func TestStringDoesNotOverlapTryCompleteAfterMatchPanics(t *testing.T) {
	var told panics
	p := open[string](t, told.option())
	g := newGate()
	var trying, overlaps atomic.Int32
	o := &described{}
	o.say = func() string { overlaps.Add(trying.Load()); return "" }
	o.try = func() bool {
		if o.tries.Load() == 3 {
			trying.Store(1)
			g.pass()
			trying.Store(0)
		}
		return false
	}
	submit(t, p, o, hour, "a")
	wait := inBackground(func() { p.CheckAndComplete("a") })
	<-g.entered
	close(g.leave)
	wait()
	assert.Zero(t, overlaps.Load(), "String ran while TryComplete did")
}

// A first try that panics finds an operation that has not begun to wait.
func TestTheAgeOfAnOperationWhoseFirstTryPanicsIsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p, err := purgatory.New[string]("p", purgatory.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		defer p.Close()
		time.Sleep(10 * time.Second)
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() == 1 {
				panic("x")
			}
			return false
		}
		_, err = p.TryCompleteElseWatch(o, time.Hour, "k")
		require.NoError(t, err)
		assert.Contains(t, log.String(), "callback=TryComplete age=0s")
	})
}

func TestInspectCountsEachKeyApart(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(512))
	for range 3 {
		probed(t, p, time.Second, "forgotten") // no goroutine checks this key
	}
	stays := probed(t, p, time.Hour, "busy")
	for range 10 {
		p.CheckAndComplete("busy")
	}
	p.AdvanceClock(2 * time.Second)
	stays.says = "fetch of 1 MB"

	in := p.Inspect(10, 10)
	require.Len(t, in.Hot, 2)
	busy := in.Hot[0]
	assert.Equal(t, "busy", busy.Key)
	assert.Equal(t, purgatory.KeyReport{Key: "busy", Waiting: 1, Watched: 1, Tries: 10, Wasted: 10}, busy)
	assert.False(t, busy.OnlyTimeouts())
	require.Len(t, in.Expiring, 1)
	assert.Equal(t, "forgotten", in.Expiring[0].Key)
	assert.EqualValues(t, 3, in.Expiring[0].Ended[operation.Expired])
	assert.True(t, in.Expiring[0].OnlyTimeouts())

	require.Len(t, in.Oldest, 1)
	assert.Equal(t, 1, in.Looked)
	none := p.Inspect(0, 0)
	assert.Equal(t, purgatory.Inspection{Tick: none.Tick, Scheduled: none.Scheduled}, none, "nobody asked")
	assert.Equal(t, purgatory.OperationReport{
		Type: "*purgatory_test.probe", Text: "fetch of 1 MB", Key: "busy", Keys: 1,
		Age: 2 * time.Second, Left: time.Hour - 2*time.Second,
	}, in.Oldest[0])
	assert.Equal(t, 1, in.Scheduled)
}

// A report never has the deadline of an operation that has ended.
func TestInspectReportsNoDeadlineOfAnEndedOperation(t *testing.T) {
	p := onManualClock[string](t)
	p.AdvanceClock(time.Hour)
	first := probed(t, p, time.Minute, "a")
	p.AdvanceClock(time.Second)
	second := probed(t, p, time.Minute, "b")
	first.while = func() {
		p.ForceComplete(first) // ends it after its String method has run
		p.ForceComplete(second)
	}
	reports := p.Inspect(0, 10).Oldest
	require.Len(t, reports, 1, "the second has ended since it was found")
	assert.Equal(t, 59*time.Second, reports[0].Left)
	assert.Equal(t, operation.Forced, first.Outcome())

	late := probed(t, p, purgatory.NoTimeout-1, "d") // from now on that is beyond the end of the clock
	reports = p.Inspect(0, 10).Oldest
	require.Len(t, reports, 1)
	assert.Equal(t, purgatory.NoTimeout, reports[0].Left, "it never passes")
	require.True(t, p.ForceComplete(late))

	var registering []purgatory.OperationReport
	third := &probe{}
	third.while = func() { registering = p.Inspect(0, 10).Oldest }
	_, err := p.TryCompleteElseWatch(third, time.Minute, "c")
	require.NoError(t, err)
	require.Len(t, registering, 1, "at its second try it is watched")
	assert.Equal(t, time.Minute, registering[0].Left, "and in the timer")
}

// Inspect puts the oldest operations and the busiest keys first, and returns no more than
// it is asked for.
func TestInspectSortsByAgeAndByEvents(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(1<<12))
	for i := range 10 {
		for range i + 1 {
			probed(t, p, time.Second, fmt.Sprint("key ", i))
		}
	}
	p.AdvanceClock(time.Minute)
	for i := range 10 {
		probed(t, p, time.Hour, fmt.Sprint("key ", i))
		p.AdvanceClock(time.Minute)
	}
	in := p.Inspect(3, 2)
	require.Len(t, in.Expiring, 3)
	for i := range 3 {
		assert.EqualValues(t, 10-i, in.Expiring[i].Ended[operation.Expired])
	}
	require.Len(t, in.Oldest, 2)
	assert.Equal(t, "key 0", in.Oldest[0].Key)
	assert.Equal(t, 10*time.Minute, in.Oldest[0].Age)
	assert.Equal(t, "key 1", in.Oldest[1].Key)
	assert.Equal(t, 9*time.Minute, in.Oldest[1].Age)
}

// Inspect visits a bounded number of operations. The test counts visits, not time.
func TestInspectVisitsABoundedNumberOfOperations(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(512))
	for i := range 20_000 {
		probed(t, p, time.Hour, fmt.Sprint(i%5000), "everybody")
	}
	in := p.Inspect(20, 20)
	assert.LessOrEqual(t, in.Looked, purgatory.Sampling)
	assert.Len(t, in.Hot, 20)
	assert.Len(t, in.Oldest, 20)
	assert.Equal(t, "everybody", in.Hot[0].Key)
	assert.Equal(t, 20_000, in.Hot[0].Waiting)
}

// Inspect allocates for what there is, whatever its caller asks for.
func TestInspectOfMoreOperationsThanThereAre(t *testing.T) {
	p := onManualClock[string](t)
	probed(t, p, time.Hour, "a")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := p.Inspect(math.MaxInt, math.MaxInt)
	runtime.ReadMemStats(&after)
	assert.Len(t, in.Oldest, 1)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

// Inspect calls String only where there is one.
func TestInspectCallsNoMethodOfAnOperationWithoutString(t *testing.T) {
	p := onManualClock[string](t)
	_, err := p.TryCompleteElseWatch(&silent{}, time.Hour, "a")
	require.NoError(t, err)
	in := p.Inspect(0, 1)
	require.Len(t, in.Oldest, 1)
	assert.Equal(t, "*purgatory_test.silent", in.Oldest[0].Type)
	assert.Empty(t, in.Oldest[0].Text)
	assert.Zero(t, p.Stats().Panics)
}

func TestOnlyTimeoutsIsFalseForKeysEverWoken(t *testing.T) {
	counts := func(outcomes ...operation.Outcome) *purgatory.KeyReport {
		k := new(purgatory.KeyReport)
		for _, o := range outcomes {
			k.Ended[o]++
		}
		return k
	}
	assert.False(t, counts().OnlyTimeouts())
	assert.True(t, counts(operation.Expired).OnlyTimeouts())
	assert.True(t, counts(operation.Expired, operation.Closed).OnlyTimeouts())
	assert.False(t, counts(operation.Expired, operation.Satisfied, operation.Forced).OnlyTimeouts())
	assert.False(t, counts(operation.Expired, operation.Satisfied, operation.Cancelled).OnlyTimeouts())
	assert.False(t, counts(operation.Expired, operation.Forced, operation.Cancelled).OnlyTimeouts())
}

// The end of an operation counts for all its keys, whichever shards they are in.
func TestAnEndCountsForAllKeysOfAnOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(1<<12))
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint(i))
	}
	require.True(t, p.ForceComplete(probed(t, p, time.Hour, keys...)))
	hot := p.Inspect(100, 0).Hot
	require.Len(t, hot, 20)
	for _, k := range hot {
		assert.EqualValues(t, 1, k.Ended[operation.Forced], k.Key)
	}
}

// An expiry of a quiet key is counted although busy keys have displaced the key from the
// list of the busiest.
func TestExpiriesOfAQuietKeyAreCounted(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(4), purgatory.WithWatcherShards(1))
	p.AdvanceClock(time.Hour)
	probed(t, p, time.Second, "quiet")
	for i := range 100 {
		probed(t, p, time.Hour, fmt.Sprint(i%5))
	}
	p.AdvanceClock(time.Minute)
	in := p.Inspect(10, 0)
	for _, k := range in.Hot {
		assert.NotEqual(t, "quiet", k.Key)
	}
	require.Len(t, in.Expiring, 1)
	assert.Equal(t, "quiet", in.Expiring[0].Key)
	assert.EqualValues(t, 1, in.Expiring[0].Ended[operation.Expired])
	assert.GreaterOrEqual(t, in.Expiring[0].Since, time.Hour)
}

// Each expiry of a key counts once, also while busy keys displace the key from the list of the
// busiest.
func TestRepeatedExpiriesOfAQuietKeyCountOnceEach(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(4), purgatory.WithWatcherShards(1))
	for n := range 3 {
		probed(t, p, time.Second, "quiet")
		for i := range 100 {
			probed(t, p, time.Hour, fmt.Sprint(i%5))
		}
		p.AdvanceClock(2 * time.Second)
		in := p.Inspect(10, 0)
		for _, k := range in.Hot {
			require.NotEqual(t, "quiet", k.Key)
		}
		require.Len(t, in.Expiring, 1)
		require.EqualValues(t, n+1, in.Expiring[0].Ended[operation.Expired])
	}
}

// Keys that expire once do not displace a key that expires often, however many they are.
func TestRareExpiriesDoNotDisplaceAKeyThatExpiresOften(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(4), purgatory.WithWatcherShards(1))
	expire := func(key string) {
		probed(t, p, time.Second, key)
		p.AdvanceClock(2 * time.Second)
	}
	for range 20 {
		expire("often")
	}
	for i := range 12 {
		expire(fmt.Sprint(i))
	}
	first := p.Inspect(1, 0).Expiring[0]
	assert.Equal(t, "often", first.Key)
	assert.EqualValues(t, 20, first.Ended[operation.Expired])
}

func TestInspectPutsTheBusiestFirst(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(1<<12))
	for i := range 10 {
		for range 1 + (i*7)%10 {
			probed(t, p, time.Hour, fmt.Sprint(i))
		}
	}
	hot := p.Inspect(10, 0).Hot
	require.Len(t, hot, 10)
	for i, k := range hot {
		assert.EqualValues(t, 10-i, k.Watched, k.Key)
	}
}

// Watched, Tries and Wasted of an expiring key are not reported once the key has been
// displaced from the list of the busiest: they are not counted since.
func TestAnExpiringKeyHasNoStaleCounts(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(4), purgatory.WithWatcherShards(1))
	probed(t, p, time.Second, "quiet")
	p.CheckAndComplete("quiet")
	p.AdvanceClock(2 * time.Second)
	k := p.Inspect(10, 0).Expiring[0]
	assert.Equal(t, []int64{1, 1, 1}, []int64{k.Watched, k.Tries, k.Wasted})
	for i := range 100 {
		probed(t, p, time.Hour, fmt.Sprint(i%5))
	}
	k = p.Inspect(10, 0).Expiring[0]
	assert.Equal(t, "quiet", k.Key)
	assert.Equal(t, []int64{0, 0, 0}, []int64{k.Watched, k.Tries, k.Wasted})
	assert.EqualValues(t, 1, k.Ended[operation.Expired])
}

// The end of an operation is no try, and no event that makes its key a hot one.
func TestAnEndIsNotCountedAsATry(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(8))
	probed(t, p, time.Hour, "a", "b")
	assert.Equal(t, 1, p.CancelForKey("a", nil))
	probed(t, p, time.Hour, "b")
	require.NoError(t, p.Close())
	assert.Empty(t, p.Inspect(10, 0).Expiring)
	hot := p.Inspect(10, 0).Hot
	require.Len(t, hot, 2)
	for _, k := range hot {
		assert.Contains(t, "ab", k.Key)
		assert.Zero(t, k.Tries)
	}
	p = onManualClock[string](t)
	for _, end := range []func(o *probe){
		func(o *probe) { p.ForceComplete(o) }, func(o *probe) { p.Cancel(o, nil) }, func(*probe) { p.CancelForKey("a", nil) }, func(*probe) { p.AdvanceClock(time.Hour) },
	} {
		end(probed(t, p, time.Hour, "a"))
		assert.Equal(t, []int64{0, 0}, []int64{p.Stats().Pending, p.Stats().Checks})
	}
}

func TestOnlyTimeoutsBecomesFalseWhenAKeyIsWoken(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(64))
	probed(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	require.True(t, p.Inspect(10, 0).Expiring[0].OnlyTimeouts())
	op := probed(t, p, time.Second, "a")
	op.ready = true
	p.CheckAndComplete("a")
	assert.False(t, p.Inspect(10, 0).Expiring[0].OnlyTimeouts())
}

// A key is not reported as ended only by timeouts if operations of it were satisfied before
// its first expiry.
func TestOnlyTimeoutsRemembersEarlierSatisfiedOperations(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(64))
	op := probed(t, p, time.Second, "a")
	op.ready = true
	require.Equal(t, 1, p.CheckAndComplete("a"))
	probed(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	got := p.Inspect(10, 0).Expiring[0]
	assert.False(t, got.OnlyTimeouts())
	assert.EqualValues(t, 1, got.Ended[operation.Expired])
	assert.EqualValues(t, 1, got.Ended[operation.Satisfied])
	assert.EqualValues(t, 2, got.Watched)
}

func TestInspectWithoutKeyStatsKnowsNoKeys(t *testing.T) {
	p := onManualClock[string](t)
	probed(t, p, time.Second, "a", "b")
	in := p.Inspect(10, 10)
	assert.Empty(t, in.Hot)
	assert.Len(t, in.Oldest, 1, "found under both keys, shown once")
	assert.Equal(t, 2, in.Oldest[0].Keys)
	assert.Empty(t, p.Inspect(0, 0).Oldest)
	p = onManualClock[string](t, purgatory.WithHistograms())
	probed(t, p, time.Second, "a")
	assert.Empty(t, p.Inspect(10, 0).Hot)
}

// racer writes to a plain field in TryComplete, which String reads: the race detector sees an overlap.
type racer struct {
	operation.DelayedOperation
	tries int
	ended bool
}

func (r *racer) TryComplete() bool { r.tries++; return r.tries > 2000 }
func (r *racer) OnComplete()       { r.ended = true }
func (r *racer) OnExpiration()     {}
func (r *racer) String() string    { return fmt.Sprint(r.tries, r.ended) }

func TestStringOverlapsNoOtherMethod(t *testing.T) {
	p := onManualClock[string](t)
	op := &racer{}
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for op.Outcome() == operation.Pending {
				p.CheckAndComplete("a")
			}
		})
		running.Go(func() {
			for op.Outcome() == operation.Pending {
				p.Inspect(0, 1)
			}
		})
	}
	running.Wait()
	assert.True(t, op.ended)
}

// A check that comes while String runs leaves a mark, and is not lost.
func TestCheckDuringStringIsNotLost(t *testing.T) {
	p := onManualClock[string](t)
	op := &selfish{p: p}
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	in := p.Inspect(0, 1)
	assert.Equal(t, "changed", in.Oldest[0].Text)
	require.Eventually(t, func() bool { return op.Outcome() == operation.Satisfied }, deadline, time.Millisecond)
}

// A call that ends an operation while String runs returns false, and the operation ends as
// asked.
func TestAnEndRequestedDuringStringIsCarriedOut(t *testing.T) {
	p := onManualClock[string](t)
	gone := errors.New("gone")
	op := &selfish{p: p}
	op.during = func() { assert.False(t, p.Cancel(op, gone)) }
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a", "b")
	require.NoError(t, err)
	p.Inspect(0, 1)
	assert.Equal(t, operation.Cancelled, op.Outcome())
	assert.Equal(t, gone, op.Cause())
	assert.Zero(t, p.Watched())
	assert.EqualValues(t, 0, p.Stats().Checks, "nobody tried it")
}

type selfish struct {
	operation.DelayedOperation
	p      *purgatory.DelayedOperationPurgatory[string]
	ready  bool
	take   func() bool // of TryComplete, unless it is ready
	during func()      // what String does
}

func (s *selfish) TryComplete() bool { return s.ready || s.take != nil && s.take() }
func (s *selfish) OnComplete()       {}
func (s *selfish) OnExpiration()     {}

func (s *selfish) String() string {
	if s.during != nil {
		s.during()
		return ""
	}
	s.ready = true
	s.p.CheckAndComplete("a")
	return "changed"
}

func TestInspectCutsLongTexts(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(8))
	op := probed(t, p, time.Hour, strings.Repeat("é", 5000)+"\xff")
	op.says = strings.Repeat("x", 199) + "€"
	in := p.Inspect(1, 1)
	assert.Equal(t, strings.Repeat("x", 199)+"…", in.Oldest[0].Text)
	assert.Equal(t, strings.Repeat("é", 100)+"…", in.Hot[0].Key)
}

func TestAPanicInStringLosesNoOperation(t *testing.T) {
	told := 0
	p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { told++ }))
	op := &broken{}
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	assert.Empty(t, p.Inspect(0, 1).Oldest[0].Text)
	assert.Equal(t, 1, told)
	assert.True(t, p.ForceComplete(op))
}

// A handler that blocks holds no operation: neither the one whose String method has panicked nor those before the one
// for which match has.
func TestAPanicHandlerThatBlocksHoldsNoOperation(t *testing.T) {
	for name, blocks := range map[string]func(p *purgatory.Purgatory[string]){
		"String": func(p *purgatory.Purgatory[string]) { p.Inspect(0, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				var told atomic.Int32
				p := open[string](t, purgatory.WithPanicHandler(func(any, []byte) { told.Add(1); <-release }))
				var ops [3]broken
				for i := range ops {
					_, err := p.TryCompleteElseWatch(&ops[i], time.Minute, "a")
					require.NoError(t, err)
				}
				wait := inBackground(func() { blocks(p) })
				time.Sleep(time.Hour)
				assert.EqualValues(t, 1, told.Load())
				for i := range ops {
					assert.NotEqual(t, operation.Pending, ops[i].Outcome(), "%d", i)
				}
				close(release)
				wait()
				require.NoError(t, p.Close())
			})
		})
	}
}

type broken struct{ operation.DelayedOperation }

func (*broken) TryComplete() bool { return false }
func (*broken) OnComplete()       {}
func (*broken) OnExpiration()     {}
func (*broken) String() string    { panic("no words") }

// While Inspect calls String of the first in line, a check in order passes over nobody.
func TestInspectKeepsTheOrderOfALine(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
	items := new(atomic.Int32)
	take := func() bool { return items.Load() > 0 && items.Add(-1) >= 0 }
	first := &selfish{p: p, take: take}
	first.during = func() {
		items.Add(1)
		assert.Zero(t, p.CheckAndCompleteInOrder("a"))
		assert.EqualValues(t, 1, items.Load(), "it is the first one's")
	}
	_, err := p.TryCompleteElseWatch(first, hour, "a")
	require.NoError(t, err)
	second := &op{try: take}
	submit(t, p, second, hour, "a")
	p.Inspect(0, 1)
	eventually(t, func() bool { return first.Outcome() == operation.Satisfied }, "the worker's check")
	pending(t, second)
	items.Add(1)
	assert.Equal(t, 1, p.CheckAndCompleteInOrder("a"))
	ended(t, second, operation.Satisfied)
	empty(t, p)
}

// While a check in order goes on, Inspect does not hold those in its line.
func TestInspectHasNoTextDuringACheckInOrder(t *testing.T) {
	p := onManualClock[string](t)
	first := &op{}
	submit(t, p, first, hour, "a")
	second := &selfish{p: p, during: func() { assert.Fail(t, "String is called") }}
	_, err := p.TryCompleteElseWatch(second, hour, "a")
	require.NoError(t, err)
	var texts []string
	first.try = func() bool {
		for _, o := range p.Inspect(0, 9).Oldest {
			texts = append(texts, o.Text)
		}
		return true
	}
	p.CheckAndCompleteInOrder("a")
	assert.Equal(t, []string{"", ""}, texts)
	p.CancelForKey("a", nil)
	empty(t, p)
}
