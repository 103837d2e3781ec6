package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With -debug-addr the page shows what waits at each broker that runs: not what
// waited at one that was stopped, and again what waits there when it has come back.
func TestDebugPage(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	in, lines := io.Pipe()
	defer lines.Close()
	var out debugservertest.Output
	var errs debugservertest.Output
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"-port", "0", "-controller-port", "0", "-debug-addr", "127.0.0.1:0"}, in, &out, &errs)
	}()
	all := out.Until(t, func(shown map[string]debug.PurgatoryView) bool {
		return len(shown) == 18 && strings.Contains(out.String(), "brokers are up")
	})
	for _, kind := range []string{"produce", "fetch", "rebalance", "heartbeat"} {
		for broker := 1; broker <= 3; broker++ {
			name := fmt.Sprintf("%s-%d", kind, broker)
			assert.True(t, all[name].Timed, "%s: %v", name, all)
		}
	}
	fmt.Fprintln(lines, "stop 2")
	left := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return len(shown) == 12 })
	assert.NotContains(t, left, "produce-2")
	fmt.Fprintln(lines, "start 2")
	back := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return len(shown) == 18 })
	assert.Contains(t, back, "produce-2")
	interrupt()
	assert.Equal(t, exitOK, <-ended, errs.String())
}

// A broker of another process has a page of its own.
func TestDebugPageOfABrokerThatJoins(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var first, second debugservertest.Output
	var errs debugservertest.Output
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"-brokers", "1", "-port", "0", "-controller-port", "0", "-debug-addr", ":0"}, strings.NewReader(""), &first, &errs)
	}()
	first.Until(t, func(map[string]debug.PurgatoryView) bool { return strings.Contains(first.String(), "brokers are up") })
	_, rest, _ := strings.Cut(first.String(), "-join ")
	controller, _, _ := strings.Cut(rest, " ")
	go func() {
		ended <- run(ctx, []string{"-join", controller, "-id", "101", "-port", "0", "-debug-addr", ":0"}, strings.NewReader(""), &second, &errs)
	}()
	shown := second.Until(t, func(shown map[string]debug.PurgatoryView) bool {
		return len(shown) == 6 && strings.Contains(second.String(), "broker 101")
	})
	assert.Contains(t, shown, "produce-101")
	interrupt()
	assert.Equal(t, exitOK, <-ended, errs.String())
	assert.Equal(t, exitOK, <-ended, errs.String())
}

// A minimum that is given is kept, also by a process that has fewer brokers: others may join.
func TestTheMinimumIsNotLowered(t *testing.T) {
	for args, want := range map[string]int{"-brokers 1": 2, "-brokers 1 -min-insync 3": 3, "-brokers 1 -min-insync 1": 1} {
		f, err := parse(strings.Fields(args), io.Discard)
		require.NoError(t, err)
		assert.Equal(t, want, f.minInsync, args)
	}
}

// A broker that joins nobody says at once whom it cannot reach, and gives up.
func TestJoinNowhere(t *testing.T) {
	var out, errs debugservertest.Output
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"-join", "127.0.0.1:1", "-port", "0"}, strings.NewReader(""), &out, &errs)
	}()
	require.Eventually(t, func() bool { return strings.Contains(errs.String(), "127.0.0.1:1") }, 30*time.Second, time.Millisecond)
	interrupt()
	assert.Equal(t, exitOK, <-ended, "it was told to end")
	assert.Contains(t, errs.String(), "refused")
}

func TestBadFlags(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, exitUsage, run(t.Context(), []string{"-no-such-flag"}, nil, io.Discard, &errs))
	assert.Contains(t, errs.String(), "flag provided but not defined")
	assert.Contains(t, errs.String(), "-debug-addr address")
	assert.Equal(t, exitOK, run(t.Context(), []string{"-h"}, nil, io.Discard, io.Discard))
	for _, args := range [][]string{{"-brokers", "0"}, {"-brokers", "-1"}, {"-min-insync", "0"}, {"-port", "70000"}, {"-controller-port", "-1"}, {"-id", "-5"}, {"extra"}} {
		errs.Reset()
		assert.Equal(t, exitUsage, run(t.Context(), args, nil, io.Discard, &errs), "%v", args)
		assert.Contains(t, errs.String(), args[0], "%v", args)
	}
	errs.Reset()
	assert.Equal(t, exitBroken, run(t.Context(), []string{"-debug-addr", "6060"}, nil, io.Discard, &errs))
	assert.Contains(t, errs.String(), "debug page: ")
}
