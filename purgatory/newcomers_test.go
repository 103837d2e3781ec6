package purgatory_test

import (
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
// none that their callbacks register. That also holds where others wait for positions of the key, and
// where they have done so for a key whose list is used again.
func TestACheckEndsNoNewcomers(t *testing.T) {
	for name, key := range map[string]int{"without positions": 0, "beside a position": 1, "in a list that had positions": 2} {
		t.Run(name, func(t *testing.T) {
			p, err := purgatory.New[int](t.Name(), purgatory.WithWatcherShards(1))
			require.NoError(t, err)
			defer p.Close()
			if key > 0 {
				_, err := p.StartWaitAt(time.Hour, func() bool { return false }, purgatory.KeyPosition[int]{Key: key, Position: 7})
				require.NoError(t, err)
				p.CancelForKey(2, nil)
			}
			const waiting = 200
			for range waiting {
				_, err := p.TryCompleteElseWatch(&successor{p: p}, purgatory.NoTimeout, 1)
				require.NoError(t, err)
			}
			assert.Equal(t, waiting, p.CheckAndComplete(1))
		})
	}
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
