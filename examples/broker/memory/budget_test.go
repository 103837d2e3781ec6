package memory

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/purgatory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

func newWaits(t *testing.T) *Waits {
	t.Helper()
	waits, err := purgatory.New[string]("memory")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, waits.Shutdown(context.Background())) })
	return waits
}

func TestABudgetHasALimit(t *testing.T) {
	b := New("b", 100, nil)
	require.True(t, b.Take(60))
	require.False(t, b.Take(41), "all or nothing")
	require.Equal(t, int64(60), b.Used())
	require.Equal(t, 40, b.TakeUpTo(50))
	require.Zero(t, b.TakeUpTo(1))
	b.Force(10)
	require.Zero(t, b.TakeUpTo(1))
	b.Free(11)
	require.Equal(t, 1, b.TakeUpTo(5))
	require.Equal(t, int64(100), b.Used())
}

func TestNoBudgetIsNoLimit(t *testing.T) {
	var b *Budget
	require.True(t, b.Take(1<<40))
	require.Equal(t, 7, b.TakeUpTo(7))
	b.Force(1)
	b.Free(1)
}

// TestWhoWaitsGetsWhatIsFreed: many take turns, none is forgotten, and the limit holds.
func TestWhoWaitsGetsWhatIsFreed(t *testing.T) {
	waits := newWaits(t)
	b := New("b", 100, waits)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			n := 30 + i
			if err := b.Await(context.Background(), patience, n); err != nil {
				t.Error(err)
				return
			}
			if b.Used() > b.Limit() {
				t.Error("beyond the limit")
			}
			b.Free(n)
		})
	}
	all.Wait()
	require.Zero(t, b.Used())
	require.Zero(t, waits.Stats().Pending)
	require.Zero(t, waits.Stats().Expired)
}

func TestAWaitForMemoryEnds(t *testing.T) {
	b := New("b", 1, newWaits(t))
	require.True(t, b.Take(1))
	require.ErrorIs(t, b.Await(context.Background(), time.Millisecond, 1), purgatory.ErrExpired)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, b.Await(ctx, patience, 1), context.Canceled)
	require.Equal(t, int64(1), b.Used())
}
