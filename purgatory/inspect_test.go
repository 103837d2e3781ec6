package purgatory

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

func TestInspectTellsKeysApart(t *testing.T) {
	p := newManual(t, WithKeyStats(512))
	for range 3 {
		submit(t, p, time.Second, "forgotten") // nobody checks it
	}
	stays := submit(t, p, time.Hour, "busy")
	for range 10 {
		p.CheckAndComplete("busy")
	}
	p.AdvanceClock(2 * time.Second)
	stays.says = "fetch of 1 MB"

	in := p.Inspect(10, 10)
	require.Len(t, in.Hot, 2)
	busy := in.Hot[0]
	assert.Equal(t, "busy", busy.Key)
	assert.Equal(t, KeyReport{Key: "busy", Waiting: 1, Watched: 1, Tries: 10, Wasted: 10}, busy)
	assert.False(t, busy.OnlyTimeouts())
	require.Len(t, in.Expiring, 1)
	assert.Equal(t, "forgotten", in.Expiring[0].Key)
	assert.EqualValues(t, 3, in.Expiring[0].Ended[operation.Expired])
	assert.True(t, in.Expiring[0].OnlyTimeouts())

	require.Len(t, in.Oldest, 1)
	assert.Equal(t, 1, in.Looked)
	assert.Equal(t, OperationReport{
		Type: "*purgatory.probe", Text: "fetch of 1 MB", Key: "busy", Keys: 1,
		Age: 2 * time.Second, Left: time.Hour - 2*time.Second,
	}, in.Oldest[0])
	assert.Equal(t, 1, in.Wheels.Pending)
}

// A report never tells of a deadline that an operation has not got: no longer, or not yet.
func TestInspectWhileOperationsEndAndCome(t *testing.T) {
	p := newManual(t)
	p.AdvanceClock(time.Hour)
	first := submit(t, p, time.Minute, "a")
	p.AdvanceClock(time.Second)
	second := submit(t, p, time.Minute, "b")
	first.while = func() {
		p.ForceComplete(first) // ends it when it has described itself
		p.ForceComplete(second)
	}
	reports := p.Inspect(0, 10).Oldest
	require.Len(t, reports, 1, "the second has ended since it was found")
	assert.Equal(t, 59*time.Second, reports[0].Left)
	assert.Equal(t, operation.Forced, first.Outcome())

	var registering []OperationReport
	third := &probe{}
	third.while = func() { registering = p.Inspect(0, 10).Oldest }
	_, err := p.TryCompleteElseWatch(third, time.Minute, "c")
	require.NoError(t, err)
	require.Len(t, registering, 1, "at its second try it is watched")
	assert.Zero(t, registering[0].Left)
}

func TestOnlyTimeoutsIsSaidOfNoKeyThatWasEverWoken(t *testing.T) {
	counts := func(outcomes ...operation.Outcome) *KeyReport {
		k := new(KeyReport)
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

// TestInspectPutsTheOldestAndTheMostFirst and says no more than it is asked for.
func TestInspectPutsTheOldestAndTheMostFirst(t *testing.T) {
	p := newManual(t, WithKeyStats(1<<12))
	for i := range 10 {
		for range i + 1 {
			submit(t, p, time.Second, fmt.Sprint("key ", i))
		}
	}
	p.AdvanceClock(time.Minute)
	for i := range 10 {
		submit(t, p, time.Hour, fmt.Sprint("key ", i))
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

// TestAnEndCountsForAllKeysOfAnOperation: wherever they are.
func TestAnEndCountsForAllKeysOfAnOperation(t *testing.T) {
	p := newManual(t, WithKeyStats(1<<12))
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint(i))
	}
	require.True(t, p.ForceComplete(submit(t, p, time.Hour, keys...)))
	hot := p.Inspect(100, 0).Hot
	require.Len(t, hot, 20)
	for _, k := range hot {
		assert.EqualValues(t, 1, k.Ended[operation.Forced], k.Key)
	}
}

// TestAQuietKeyExpiresAmongBusyOnes: they have pushed it out of their list by then.
func TestAQuietKeyExpiresAmongBusyOnes(t *testing.T) {
	p := newManual(t, WithKeyStats(4), WithWatcherShards(1))
	p.AdvanceClock(time.Hour)
	submit(t, p, time.Second, "quiet")
	for i := range 100 {
		submit(t, p, time.Hour, fmt.Sprint(i%5))
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

func TestInspectPutsTheBusiestFirst(t *testing.T) {
	p := newManual(t, WithKeyStats(1<<12))
	for i := range 10 {
		for range 1 + (i*7)%10 {
			submit(t, p, time.Hour, fmt.Sprint(i))
		}
	}
	hot := p.Inspect(10, 0).Hot
	require.Len(t, hot, 10)
	for i, k := range hot {
		assert.EqualValues(t, 10-i, k.Watched, k.Key)
	}
}

// TestWhatIsKnownOfBusyKeysIsNotSaidOfOneThatIsBusyNoMore: it was counted until the key was pushed out, and not since.
func TestWhatIsKnownOfBusyKeysIsNotSaidOfOneThatIsBusyNoMore(t *testing.T) {
	p := newManual(t, WithKeyStats(4), WithWatcherShards(1))
	submit(t, p, time.Second, "quiet")
	p.CheckAndComplete("quiet")
	p.AdvanceClock(2 * time.Second)
	k := p.Inspect(10, 0).Expiring[0]
	assert.Equal(t, []int64{1, 1, 1}, []int64{k.Watched, k.Tries, k.Wasted})
	for i := range 100 {
		submit(t, p, time.Hour, fmt.Sprint(i%5))
	}
	k = p.Inspect(10, 0).Expiring[0]
	assert.Equal(t, "quiet", k.Key)
	assert.Equal(t, []int64{0, 0, 0}, []int64{k.Watched, k.Tries, k.Wasted})
	assert.EqualValues(t, 1, k.Ended[operation.Expired])
}

// TestEndingIsNoTry: nor does it make a key a hot one.
func TestEndingIsNoTry(t *testing.T) {
	p := newManual(t, WithKeyStats(8))
	submit(t, p, time.Hour, "a", "b")
	assert.Equal(t, 1, p.CancelForKey("a", nil))
	submit(t, p, time.Hour, "b")
	require.NoError(t, p.Close())
	assert.Empty(t, p.Inspect(10, 0).Expiring)
	hot := p.Inspect(10, 0).Hot
	require.Len(t, hot, 2)
	for _, k := range hot {
		assert.Contains(t, "ab", k.Key)
		assert.Zero(t, k.Tries)
	}
}

func TestKeysLeaveTheSuspectsWhenSomebodyWakesThem(t *testing.T) {
	p := newManual(t, WithKeyStats(64))
	submit(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	require.True(t, p.Inspect(10, 0).Expiring[0].OnlyTimeouts())
	op := submit(t, p, time.Second, "a")
	op.ready = true
	p.CheckAndComplete("a")
	assert.False(t, p.Inspect(10, 0).Expiring[0].OnlyTimeouts())
}

// TestAnExpiryDoesNotMakeAKeySuspect: it is known that operations of the key were satisfied before its first expiry.
func TestAnExpiryDoesNotMakeAKeySuspect(t *testing.T) {
	p := newManual(t, WithKeyStats(64))
	op := submit(t, p, time.Second, "a")
	op.ready = true
	require.Equal(t, 1, p.CheckAndComplete("a"))
	submit(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	got := p.Inspect(10, 0).Expiring[0]
	assert.False(t, got.OnlyTimeouts())
	assert.EqualValues(t, 1, got.Ended[operation.Expired])
	assert.EqualValues(t, 1, got.Ended[operation.Satisfied])
	assert.EqualValues(t, 2, got.Watched)
}

func TestInspectWithoutKeyStatsKnowsNoKeys(t *testing.T) {
	p := newManual(t)
	submit(t, p, time.Second, "a", "b")
	in := p.Inspect(10, 10)
	assert.Empty(t, in.Hot)
	assert.Len(t, in.Oldest, 1, "found under both keys, shown once")
	assert.Equal(t, 2, in.Oldest[0].Keys)
	assert.Empty(t, p.Inspect(0, 0).Oldest)
	p = newManual(t, WithHistograms())
	submit(t, p, time.Second, "a")
	assert.Empty(t, p.Inspect(10, 0).Hot)
}

// TestInspectLooksAtABoundedNumber: work, not time.
func TestInspectLooksAtABoundedNumber(t *testing.T) {
	p := newManual(t, WithKeyStats(512))
	for i := range 20_000 {
		submit(t, p, time.Hour, fmt.Sprint(i%5000), "everybody")
	}
	in := p.Inspect(20, 20)
	assert.LessOrEqual(t, in.Looked, sampling)
	assert.Len(t, in.Hot, 20)
	assert.Len(t, in.Oldest, 20)
	assert.Equal(t, "everybody", in.Hot[0].Key)
	assert.Equal(t, 20_000, in.Hot[0].Waiting)
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
	p := newManual(t)
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

// TestCheckDuringStringIsNotLost: who comes by while an operation describes itself leaves a mark.
func TestCheckDuringStringIsNotLost(t *testing.T) {
	p := newManual(t)
	op := &selfish{p: p}
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	in := p.Inspect(0, 1)
	assert.Equal(t, "changed", in.Oldest[0].Text)
	assert.Equal(t, operation.Satisfied, op.Outcome())
}

// TestCheckDuringStringCountsForItsKey: the second look is a try because of the key that was checked.
func TestCheckDuringStringCountsForItsKey(t *testing.T) {
	p := newManual(t, WithKeyStats(8))
	op := &selfish{p: p}
	op.during = func() {
		op.ready = true
		p.CheckAndComplete("a")
		p.CheckAndComplete("b")
	}
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	p.AdvanceClock(time.Second)
	submit(t, p, time.Hour, "b")
	p.Inspect(0, 1)
	assert.Equal(t, operation.Satisfied, op.Outcome())
	tries, wasted := map[string]int64{}, map[string]int64{}
	for _, k := range p.Inspect(10, 0).Hot {
		tries[k.Key], wasted[k.Key] = k.Tries, k.Wasted
	}
	assert.Equal(t, map[string]int64{"a": 1, "b": 1}, tries)
	assert.Equal(t, map[string]int64{"a": 0, "b": 1}, wasted)
}

// TestWishDuringStringIsCarriedOut: who ends an operation while it describes itself is told "not I", and it ends so.
func TestWishDuringStringIsCarriedOut(t *testing.T) {
	p := newManual(t)
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
	p      *DelayedOperationPurgatory[string]
	ready  bool
	during func() // instead of becoming ready
}

func (s *selfish) TryComplete() bool { return s.ready }
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

func TestInspectBoundsText(t *testing.T) {
	p := newManual(t, WithKeyStats(8))
	op := submit(t, p, time.Hour, strings.Repeat("é", 5000)+"\xff")
	op.says = strings.Repeat("x", 199) + "€"
	in := p.Inspect(1, 1)
	assert.Equal(t, strings.Repeat("x", 199)+"…", in.Oldest[0].Text)
	assert.Equal(t, strings.Repeat("é", 100)+"…", in.Hot[0].Key)
	assert.Equal(t, "a\uFFFDb", cut("a\xffb"))
	assert.Equal(t, strings.Repeat("x", 200), cut(strings.Repeat("x", 200)))
}

func TestInspectReadsNothingBehindAPointerKey(t *testing.T) {
	key := &struct{ n int }{1}
	assert.Regexp(t, `^\*struct \{ n int \}\(0x[0-9a-f]+\)$`, keyText(key))
	assert.Equal(t, "{orders 3}", keyText(struct {
		topic     string
		partition int
	}{"orders", 3}))
}

func TestStringThatPanicsLosesNothing(t *testing.T) {
	told := 0
	p := newManual(t, WithPanicHandler(func(any, []byte) { told++ }))
	op := &broken{}
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	assert.Empty(t, p.Inspect(0, 1).Oldest[0].Text)
	assert.Equal(t, 1, told)
	assert.True(t, p.ForceComplete(op))
}

type broken struct{ operation.DelayedOperation }

func (*broken) TryComplete() bool { return false }
func (*broken) OnComplete()       {}
func (*broken) OnExpiration()     {}
func (*broken) String() string    { panic("no words") }
