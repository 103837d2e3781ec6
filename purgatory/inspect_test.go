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
