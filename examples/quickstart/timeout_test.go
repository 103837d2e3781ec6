package main

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestTimeoutByHand(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string]("produce", purgatory.WithTimer(clock))
	require.NoError(t, err)
	defer p.Close()

	op := &delayedProduce{replicated: new(atomic.Bool)}
	_, err = p.TryCompleteElseWatch(op, 30*time.Second, "orders-0")
	require.NoError(t, err)

	p.AdvanceClock(30*time.Second - 1)
	require.Equal(t, operation.Pending, op.Outcome())
	p.AdvanceClock(1)
	require.Equal(t, operation.Expired, op.Outcome())
}

func TestTimeoutInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("produce")
		require.NoError(t, err)
		defer p.Close()

		op := &delayedProduce{replicated: new(atomic.Bool)}
		_, err = p.TryCompleteElseWatch(op, 30*time.Second, "orders-0")
		require.NoError(t, err)

		time.Sleep(30*time.Second - 1)
		synctest.Wait()
		require.Equal(t, operation.Pending, op.Outcome())
		time.Sleep(time.Millisecond + 1) // late by at most one tick
		synctest.Wait()
		require.Equal(t, operation.Expired, op.Outcome())
	})
}
