package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/examples/internal/program/programtest"
	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func parse(t *testing.T, args ...string) config {
	t.Helper()
	cfg, err := parseFlags(args, io.Discard)
	require.NoError(t, err)
	return cfg
}

// A follower that stays slow and is never dropped: what its leaders take in times out, what it leads itself is satisfied, and
// what waits at the broker that steps down is cancelled.
func TestRunWithSlowFollowerAndLeaderChange(t *testing.T) {
	var out bytes.Buffer
	got, err := produce(t.Context(), slowAndChanging(t, time.Second), &out)
	if err == nil && got.answered[notLeader] == 0 { // the machine was busy until the leader changed
		out.Reset()
		got, err = produce(t.Context(), slowAndChanging(t, 20*time.Second), &out)
	}
	require.NoError(t, err)
	assert.Positive(t, got.answered[none])
	assert.Positive(t, got.answered[requestTimedOut])
	assert.Positive(t, got.answered[notLeader])
	assert.Equal(t, got.sent, got.answered[none]+got.answered[requestTimedOut]+got.answered[notLeader])
	assert.Contains(t, out.String(), "broker 0 stepped down from 2 partitions")
	assert.Contains(t, out.String(), "each answered exactly once")
}

// slowAndChanging configures a run with a slow follower and a change of the leader in its midst.
func slowAndChanging(t *testing.T, duration time.Duration) config {
	return parse(t, "-duration", duration.String(), "-rate", "500", "-timeout", (duration / 10 * 7).String(), "-lag-time", "1h",
		"-slow-from", "0", "-slow-to", "1h", "-leader-change-at", (duration / 10 * 4).String())
}

// A follower that does not fetch at all holds produces up only until it leaves the in-sync set: none needs its timeout.
func TestRunDropsSlowFollower(t *testing.T) {
	cfg := parse(t, "-duration", "800ms", "-rate", "500", "-timeout", "1h", "-lag-time", "200ms",
		"-slow-from", "0", "-slow-to", "1h", "-leader-change-at", "0")
	var out bytes.Buffer
	got, err := produce(t.Context(), cfg, &out)
	require.NoError(t, err)
	assert.Positive(t, got.sent)
	assert.Equal(t, got.sent, got.answered[none], "each is satisfied")
	assert.Contains(t, out.String(), "follower 2 has lagged for 200ms and is out of sync")
}

func TestRunWithOneBrokerAlone(t *testing.T) {
	cfg := parse(t, "-duration", "200ms", "-replicas", "1", "-leader-change-at", "1ns")
	var out bytes.Buffer
	got, err := produce(t.Context(), cfg, &out)
	require.NoError(t, err)
	assert.Equal(t, got.sent, got.answered[none], "nobody else could lead, so it goes on")
	assert.Contains(t, out.String(), "broker 0 stays leader")
}

// A run in which nothing happens has shown nothing, and fails.
func TestRunWithoutProducesFails(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, program.Failed, run(t.Context(), []string{"-duration", "1ns"}, io.Discard, &errs))
	assert.Contains(t, errs.String(), "BROKEN: no produce was answered")
}

// An interrupt, which ends run's context, still gets every produce answered, the tables written, and status 0; also of a run
// that would not end by itself.
func TestRunInterrupted(t *testing.T) {
	for _, duration := range []string{"1h", "0"} {
		ctx, interrupt := context.WithCancel(t.Context())
		out := &programtest.Writer{At: "produced ", Reached: interrupt}
		var errs bytes.Buffer
		status := run(ctx, []string{"-duration", duration}, out, &errs)
		assert.Equal(t, program.OK, status)
		assert.Error(t, ctx.Err(), "it ended by itself, before the interrupt")
		assert.Empty(t, errs.String())
		assert.Contains(t, out.String(), "A healthy run")
		assert.Contains(t, out.String(), "each answered exactly once")
		interrupt()
	}
}

// With -debug-addr the page shows what waits at each broker while the program runs.
func TestDebugPage(t *testing.T) {
	out, end := debugservertest.Start(t, func(ctx context.Context, out, errs io.Writer) int {
		return run(ctx, []string{"-duration", "1h", "-debug-addr", "127.0.0.1:0"}, out, errs)
	})
	shown := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return shown["produce-0"].Stats.Accepted > 0 })
	status, errs := end()
	assert.Equal(t, program.OK, status, errs)
	for _, name := range []string{"produce-0", "produce-1", "produce-2", "fetch-0", "fetch-1", "fetch-2"} {
		assert.NotNil(t, shown[name].Stats.Waited, "%s: %v", name, shown)
	}
	assert.Len(t, shown, 6)
}

func TestBadFlagsSayWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-partitions", "0"}, "-partitions 0: allowed is 1 to 100"},
		{[]string{"-replicas", "10"}, "-replicas 10: allowed is 1 to 9"},
		{[]string{"-rate", "-1"}, "-rate -1: allowed is 1 to 200000"},
		{[]string{"-timeout", "0"}, "-timeout 0s: allowed is 1ms to 1h0m0s"},
		{[]string{"-lag-time", "1ms"}, "-lag-time 1ms: allowed is 10ms to 1h0m0s"},
		{[]string{"-slow-to", "2s"}, "-slow-to 2s: allowed is 3s to 1h0m0s"},
		{[]string{"-leader-change-at", "-1s"}, "-leader-change-at -1s: allowed is 0s to 1h0m0s"},
		{[]string{"-duration", "2h"}, "-duration 2h0m0s: allowed is 0s to 1h0m0s"},
		{[]string{"fast"}, `unexpected argument "fast"`},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, program.Usage, run(t.Context(), test.args, &out, &errs), "%v", test.args)
		assert.Contains(t, errs.String(), test.want)
		assert.Empty(t, out.String(), "nothing has been started")
	}
}

func TestHelpExplainsEveryFlag(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, program.OK, run(t.Context(), []string{"-h"}, io.Discard, &errs))
	for flag, unit := range map[string]string{
		"partitions": "number", "replicas": "number", "rate": "number", "timeout": "duration", "lag-time": "duration",
		"slow-from": "duration", "slow-to": "duration", "leader-change-at": "duration", "duration": "duration", "debug-addr": "address",
	} {
		assert.Contains(t, errs.String(), "  -"+flag+" "+unit+"\n")
	}
}
