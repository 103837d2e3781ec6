package wire

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheTableOfConnectionsIsFull: the next one is closed at once, which is logged
// once, and there is room again when another has gone.
func TestTheTableOfConnectionsIsFull(t *testing.T) {
	var logged bytes.Buffer
	s := serve(t, echo{}, Limits{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	var open []net.Conn
	for range maxConns {
		open = append(open, dialRaw(t, s))
	}
	require.Eventually(t, func() bool { return s.Conns() == maxConns }, patience, time.Millisecond)
	for range 3 {
		_, err := dialRaw(t, s).Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "still open")
	}
	require.NoError(t, open[0].Close())
	require.Eventually(t, func() bool { return s.Conns() < maxConns }, patience, time.Millisecond)
	late := dialRaw(t, s)
	_, err := late.Write(frame(10))
	require.NoError(t, err)
	answered(t, late)
	s.Close() // nothing is logged any more
	require.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("the table is full")), "%s", logged.Bytes())
}
