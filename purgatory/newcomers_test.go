package purgatory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// successor is satisfied by the first check: the two tries of its registration are in vain. Its
// OnComplete registers the next one.
type successor struct {
	operation.DelayedOperation
	p     *purgatory.DelayedOperationPurgatory[int]
	tries int
}

func (s *successor) TryComplete() bool { s.tries++; return s.tries > 2 }
func (s *successor) OnExpiration()     {}
func (s *successor) OnComplete() {
	_, _ = s.p.TryCompleteElseWatch(&successor{p: s.p}, purgatory.NoTimeout, 1)
}

// A check of more operations than fit into a batch ends those that waited when it was called, and
// none that their callbacks register.
func TestACheckEndsNoNewcomers(t *testing.T) {
	p, err := purgatory.New[int](t.Name(), purgatory.WithWatcherShards(1))
	require.NoError(t, err)
	defer p.Close()
	const waiting = 200
	for range waiting {
		_, err := p.TryCompleteElseWatch(&successor{p: p}, purgatory.NoTimeout, 1)
		require.NoError(t, err)
	}
	assert.Equal(t, waiting, p.CheckAndComplete(1))
}

// Where there are more keys than the sample has room for, Inspect shows operations that wait for
// positions, too.
func TestInspectShowsThoseThatWaitForPositionsOfManyKeys(t *testing.T) {
	p, err := purgatory.New[int](t.Name())
	require.NoError(t, err)
	defer p.Close()
	for key := range 10_000 {
		_, err := p.StartWaitAt(time.Hour, func() bool { return false }, purgatory.KeyPosition[int]{Key: key, Position: 7})
		require.NoError(t, err)
	}
	assert.Len(t, p.Inspect(0, 10).Oldest, 10)
}

// A registration in line says whether it has ended its operation, also if a check of another goroutine ends
// it meanwhile: so an operation is never counted twice.
func TestAnOperationThatAnotherCheckEndsIsNotCompletedByItsRegistration(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
	var met atomic.Bool
	o := until(&met)
	first := submitted(t, p, "line")
	first.try = func() bool { // o has been tried under its first key
		met.Store(true)
		inBackground(func() { assert.Equal(t, 1, p.CheckAndComplete("own")) })()
		return false
	}
	completed, err := p.TryCompleteElseWatch(o, hour, "own", "line")
	require.NoError(t, err)
	assert.False(t, completed)
	ended(t, o, operation.Satisfied)
	pending(t, first)
}
