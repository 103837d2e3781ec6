package signalstest_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals/signalstest"
)

func TestAFreeAddressIsFreeAndNobodyElses(t *testing.T) {
	port := func(address string) int {
		host, text, err := net.SplitHostPort(address)
		require.NoError(t, err)
		assert.Equal(t, "127.0.0.1", host)
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	seen := make(map[int]bool)
	for range 100 {
		address := signalstest.FreeAddress(t)
		n := port(address)
		assert.GreaterOrEqual(t, n, 10_000)
		assert.Less(t, n, 30_000, "the system gives this port to others")
		assert.False(t, seen[n], "%d was given before", n)
		seen[n] = true
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		defer l.Close()
		// The next one is not free.
		if next, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n+1))); err == nil {
			defer next.Close()
		}
		seen[n+1] = true
	}
}
