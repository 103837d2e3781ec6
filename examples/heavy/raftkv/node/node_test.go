package node

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAloneWritesReadsWatches(t *testing.T) {
	n := alone(t, nil)
	ctx := context.Background()

	_, found, err := n.Read(ctx, "k", patient)
	require.NoError(t, err)
	require.False(t, found)

	first, err := n.Propose(ctx, "k", []byte("one"), patient)
	require.NoError(t, err)
	e, found, err := n.Read(ctx, "k", patient)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "one", string(e.Value))
	require.Equal(t, first, e.Revision)

	watched := make(chan error, 1)
	go func() {
		e, err := n.Watch(ctx, "k", first, patient)
		if err == nil && string(e.Value) != "two" {
			err = context.Canceled
		}
		watched <- err
	}()
	require.Eventually(t, func() bool { return n.watches.NumDelayed() == 1 }, patient, time.Millisecond)
	second, err := n.Propose(ctx, "k", []byte("two"), patient)
	require.NoError(t, err)
	require.Greater(t, second, first)
	require.NoError(t, <-watched)
	_, err = n.Watch(ctx, "k", second, time.Millisecond)
	require.ErrorIs(t, err, ErrDeadline)
}
