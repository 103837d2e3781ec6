package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// With -debug-addr the page shows what waits at each broker that runs: not what
// waited at one that was stopped, and again what waits there when it has come back.
// The prompt says what it has done.
func TestPrompt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	in, lines := io.Pipe()
	defer lines.Close()
	var out, errs debugservertest.Output
	ended := make(chan error)
	go func() {
		ended <- run(ctx, []string{"-port", "0", "-debug-addr", "127.0.0.1:0"}, in, &out, &errs)
	}()
	all := out.Until(t, func(shown map[string]debug.PurgatoryView) bool {
		return len(shown) == 8 && strings.Contains(out.String(), "brokers are up")
	})
	for _, name := range []string{"produce-1", "fetch-3", "rebalance", "heartbeat"} {
		assert.NotNil(t, all[name].Stats.Waited, "%s: %v", name, all)
	}
	say := func(line, answer string) {
		t.Helper()
		before := len(out.String())
		fmt.Fprintln(lines, line)
		out.Until(t, func(map[string]debug.PurgatoryView) bool { return strings.Contains(out.String()[before:], answer) })
	}
	say("stop 2", "done")
	left := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return len(shown) == 6 })
	assert.NotContains(t, left, "produce-2")
	say("kill 2", "broker 2 is not running")
	say("start 1", "broker 1 is not down")
	say("start 2", "done")
	back := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return len(shown) == 8 })
	assert.Contains(t, back, "produce-2")
	say("freeze 3", "done")
	say("thaw 3", "done")
	say("kill 9", "broker 9 is not running")
	say("kill", "stop N, kill N")
	interrupt()
	require.NoError(t, <-ended, errs.String())
}

func TestBadFlags(t *testing.T) {
	for _, args := range []string{"-no-such-flag", "-port 70000", "extra"} {
		assert.ErrorIs(t, run(t.Context(), strings.Fields(args), nil, io.Discard, io.Discard), program.ErrUsage, args)
	}
	assert.ErrorIs(t, run(t.Context(), []string{"-h"}, nil, io.Discard, io.Discard), flag.ErrHelp)
	assert.ErrorContains(t, run(t.Context(), []string{"-debug-addr", "6060"}, nil, io.Discard, io.Discard), "debug page: ")
}
