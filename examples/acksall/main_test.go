package main

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t *testing.T, args ...string) config {
	t.Helper()
	cfg, err := parseFlags(args, io.Discard)
	require.NoError(t, err)
	return cfg
}

// A follower that stays slow and is never dropped: what its leaders take in times out, what it leads itself is satisfied, and
// what waits at the broker that steps down is cancelled.
func TestRunWithSlowFollowerAndLeaderChange(t *testing.T) {
	cfg := parse(t, "-duration", "1s", "-rate", "500", "-timeout", "700ms", "-lag-time", "1h",
		"-slow-from", "0", "-slow-to", "1h", "-slow-by", "1h", "-leader-change-at", "400ms")
	var out bytes.Buffer
	r, err := produce(t.Context(), cfg, &out)
	require.NoError(t, err)
	assert.Empty(t, r.broken)
	assert.Positive(t, r.answered[none])
	assert.Positive(t, r.answered[requestTimedOut])
	assert.Positive(t, r.answered[notLeader])
	assert.Equal(t, r.sent, r.answered[none]+r.answered[requestTimedOut]+r.answered[notLeader])
	assert.Contains(t, out.String(), "broker 0 stepped down from 2 partitions")
	assert.Contains(t, out.String(), "each answered exactly once")
}

// A follower that does not fetch at all holds produces up only until it leaves the in-sync set: none needs its timeout. (On a
// busy machine a healthy one may lag as long, and leave too: one replica in sync is enough here.)
func TestRunDropsSlowFollower(t *testing.T) {
	cfg := parse(t, "-duration", "800ms", "-rate", "500", "-timeout", "1h", "-lag-time", "200ms", "-min-insync-replicas", "1",
		"-slow-from", "0", "-slow-to", "1h", "-slow-by", "1h", "-leader-change-at", "0")
	var out bytes.Buffer
	r, err := produce(t.Context(), cfg, &out)
	require.NoError(t, err)
	assert.Empty(t, r.broken)
	assert.Positive(t, r.sent)
	assert.Equal(t, r.sent, r.answered[none], "each is satisfied")
	assert.Contains(t, out.String(), "follower 2 has lagged for 200ms and is no longer in sync")
}

// Below min.insync.replicas produces are refused, not left to wait.
func TestRunRefusesBelowMinInsync(t *testing.T) {
	cfg := parse(t, "-duration", "800ms", "-rate", "500", "-timeout", "1h", "-lag-time", "100ms", "-min-insync-replicas", "3",
		"-slow-from", "0", "-slow-to", "1h", "-slow-by", "1h", "-leader-change-at", "0")
	r, err := produce(t.Context(), cfg, io.Discard)
	require.NoError(t, err)
	assert.Empty(t, r.broken)
	assert.Positive(t, r.answered[notEnoughReplicas])
	assert.Equal(t, r.sent, r.answered[none]+r.answered[notEnoughReplicas])
}

func TestRunWithOneBrokerAlone(t *testing.T) {
	cfg := parse(t, "-duration", "200ms", "-replicas", "1", "-leader-change-at", "100ms")
	var out bytes.Buffer
	r, err := produce(t.Context(), cfg, &out)
	require.NoError(t, err)
	assert.Empty(t, r.broken)
	assert.Equal(t, r.sent, r.answered[none], "nobody else could lead, so it goes on")
	assert.Contains(t, out.String(), "broker 0 stays leader")
}

// An interrupt, which ends run's context, still gets every produce answered, the tables written, and status 0; also of a run
// that would not end by itself.
func TestRunInterrupted(t *testing.T) {
	for _, duration := range []string{"1h", "0"} {
		t.Run(duration, func(t *testing.T) { interrupted(t, duration) })
	}
}

func interrupted(t *testing.T, duration string) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &signalWriter{at: "produced ", reached: interrupt}
	var errs bytes.Buffer
	status := run(ctx, []string{"-duration", duration}, out, &errs)
	assert.Equal(t, exitOK, status)
	assert.Error(t, ctx.Err(), "it ended by itself, before the interrupt")
	assert.Empty(t, errs.String())
	assert.Contains(t, out.String(), "outcome")
	assert.Contains(t, out.String(), "each answered exactly once")
}

// With -debug-addr the page shows what waits at each broker while the program runs.
func TestDebugPage(t *testing.T) {
	out, end := debugservertest.Start(t, func(ctx context.Context, out, errs io.Writer) int {
		return run(ctx, []string{"-duration", "1h", "-debug-addr", "127.0.0.1:0"}, out, errs)
	})
	shown := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return shown["produce-0"].Accepted > 0 })
	status, errs := end()
	assert.Equal(t, exitOK, status, errs)
	for _, name := range []string{"produce-0", "produce-1", "produce-2", "fetch-0", "fetch-1", "fetch-2"} {
		assert.True(t, shown[name].Timed, "%s: %v", name, shown)
	}
	assert.Len(t, shown, 6)
}

// signalWriter calls reached when a text has been written.
type signalWriter struct {
	at      string
	reached func()

	mu      sync.Mutex
	written bytes.Buffer
}

func (w *signalWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(p, []byte(w.at)) {
		w.reached()
	}
	return w.written.Write(p)
}

func (w *signalWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.String()
}

func TestBrokenPromiseEndsNonZero(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, exitOK, result{}.status(&errs))
	assert.Empty(t, errs.String())
	assert.Equal(t, exitBroken, result{broken: []string{"1 produces were never answered"}}.status(&errs))
	assert.Equal(t, "BROKEN: 1 produces were never answered\n", errs.String())
}

func TestBadFlagsSayWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-partitions", "0"}, "-partitions 0: allowed is 1 to 1000"},
		{[]string{"-replicas", "10"}, "-replicas 10: allowed is 1 to 9"},
		{[]string{"-replicas", "-1"}, "-replicas -1: allowed is 1 to 9"},
		{[]string{"-min-insync-replicas", "4"}, "-min-insync-replicas 4: allowed is 1 to 3"},
		{[]string{"-producers", "0"}, "-producers 0: allowed is 1 to 1000"},
		{[]string{"-rate", "0"}, "-rate 0: allowed is 1 to 200000"},
		{[]string{"-partitions-per-produce", "3"}, "-partitions-per-produce 3: allowed is 1 to 2"},
		{[]string{"-timeout", "0"}, "-timeout 0s: allowed is 1ms to 1h0m0s"},
		{[]string{"-lag-time", "1ms"}, "-lag-time 1ms: allowed is 10ms to 1h0m0s"},
		{[]string{"-fetch-wait", "1s"}, "-fetch-wait 1s: allowed is 1ms to 750ms"},
		{[]string{"-slow-follower", "3"}, "-slow-follower 3: allowed is 0 to 2"},
		{[]string{"-slow-from", "7s"}, "-slow-to 6s: allowed is 7s to 1h0m0s"},
		{[]string{"-leader-change-at", "-1s"}, "-leader-change-at -1s: allowed is 0s to 1h0m0s"},
		{[]string{"-duration", "1ms"}, "-duration 1ms: allowed is 100ms to 1h0m0s"},
		{[]string{"-rate", "many"}, `invalid value "many" for flag -rate`},
		{[]string{"-no-such-flag"}, "flag provided but not defined"},
		{[]string{"5s"}, `unexpected argument "5s"`},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, exitUsage, run(t.Context(), test.args, &out, &errs), "%v", test.args)
		assert.Contains(t, errs.String(), test.want)
		assert.Empty(t, out.String(), "nothing has been started")
	}
}

func TestHelpExplainsEveryFlag(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, exitOK, run(t.Context(), []string{"-h"}, &out, &errs))
	for _, flag := range []string{
		"partitions", "replicas", "min-insync-replicas", "producers", "rate", "partitions-per-produce", "timeout", "lag-time",
		"fetch-wait", "slow-follower", "slow-from", "slow-to", "slow-by", "leader-change-at", "duration", "debug-addr",
	} {
		assert.Contains(t, errs.String(), "-"+flag+" ")
	}
}

func TestDefaultsFollowOtherFlags(t *testing.T) {
	cfg := parse(t, "-replicas", "5", "-partitions", "3", "-lag-time", "100ms")
	assert.Equal(t, 3, cfg.minInsync)
	assert.Equal(t, 1, cfg.partitionsPerProduce)
	assert.Equal(t, 4, cfg.slow.broker)
	assert.Equal(t, 50*time.Millisecond, cfg.fetchWait)
}

func TestSlownessNeverOutlastsItsPhase(t *testing.T) {
	s := slowness{broker: 2, from: time.Second, to: 3 * time.Second, by: 1500 * time.Millisecond}
	assert.Zero(t, s.delay(1, 2*time.Second), "another broker")
	assert.Zero(t, s.delay(2, time.Second-1))
	assert.Equal(t, 1500*time.Millisecond, s.delay(2, time.Second))
	assert.Equal(t, 500*time.Millisecond, s.delay(2, 2500*time.Millisecond))
	assert.Zero(t, s.delay(2, 3*time.Second))
}
