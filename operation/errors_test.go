package operation

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnExpiryIsATimeoutForOthers(t *testing.T) {
	var timeout net.Error
	require.ErrorAs(t, ErrExpired, &timeout)
	assert.True(t, timeout.Timeout())
	require.ErrorIs(t, ErrExpired, context.DeadlineExceeded)
	assert.NotErrorIs(t, ErrExpired, context.Canceled)
	for _, other := range []error{ErrClosed, ErrFull, ErrCancelled} {
		assert.NotErrorIs(t, other, context.DeadlineExceeded)
	}
}
