package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/signals/signalstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// patient bounds what would otherwise hang; no test says how long a thing takes.
const patient = 60 * time.Second

func testLogger() *slog.Logger {
	if os.Getenv("RAFTKV_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// members returns n members with free addresses.
func members(t testing.TB, n int) []Member {
	t.Helper()
	var all []Member
	for i := range n {
		all = append(all, Member{fmt.Sprintf("n%d", i+1), signalstest.FreeAddress(t)})
	}
	return all
}

func config(t testing.TB, m Member, all []Member) Config {
	t.Helper()
	return Config{Member: m, Folder: t.TempDir() + "/data", Bootstrap: all, Heartbeat: 200 * time.Millisecond, Logger: testLogger()}
}

func open(t testing.TB, c Config) *Node {
	t.Helper()
	n, err := Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// alone starts a cluster of one, and waits until it leads.
func alone(t testing.TB, change func(*Config)) *Node {
	t.Helper()
	all := members(t, 1)
	c := config(t, all[0], all)
	if change != nil {
		change(&c)
	}
	n := open(t, c)
	awaitLeader(t, n)
	return n
}

func awaitLeader(t testing.TB, n *Node) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := n.LeaderIndex(context.Background(), time.Second)
		return err == nil
	}, patient, 5*time.Millisecond)
}
