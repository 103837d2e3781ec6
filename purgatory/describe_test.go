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

// A check that comes while String runs leaves a mark, and is not lost.
func TestCheckDuringStringIsNotLost(t *testing.T) {
	p := newManual(t)
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
	during func() // what String does
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

func TestInspectCutsLongTexts(t *testing.T) {
	p := newManual(t, WithKeyStats(8))
	op := submit(t, p, time.Hour, strings.Repeat("é", 5000)+"\xff")
	op.says = strings.Repeat("x", 199) + "€"
	in := p.Inspect(1, 1)
	assert.Equal(t, strings.Repeat("x", 199)+"…", in.Oldest[0].Text)
	assert.Equal(t, strings.Repeat("é", 100)+"…", in.Hot[0].Key)
}

func TestAPanicInStringLosesNoOperation(t *testing.T) {
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
