package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With -debug-addr the page shows what waits at each broker that runs: not what
// waited at one that was stopped, and again what waits there when it has come back.
// The prompt says what it has done.
func TestPrompt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	in, lines := io.Pipe()
	defer lines.Close()
	var out, errs debugservertest.Output
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"-port", "0", "-debug-addr", "127.0.0.1:0"}, in, &out, &errs)
	}()
	all := out.Until(t, func(shown map[string]debug.PurgatoryView) bool {
		return len(shown) == 15 && strings.Contains(out.String(), "brokers are up")
	})
	for _, kind := range []string{"produce", "fetch", "rebalance", "heartbeat"} {
		for broker := 1; broker <= 3; broker++ {
			name := fmt.Sprintf("%s-%d", kind, broker)
			assert.True(t, all[name].Timed, "%s: %v", name, all)
		}
	}
	say := func(line, answer string) {
		t.Helper()
		before := len(out.String())
		fmt.Fprintln(lines, line)
		out.Until(t, func(map[string]debug.PurgatoryView) bool { return strings.Contains(out.String()[before:], answer) })
	}
	say("stop 2", "done")
	left := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return len(shown) == 10 })
	assert.NotContains(t, left, "produce-2")
	say("kill 2", "broker 2 is not running")
	say("start 1", "broker 1 is not down")
	say("start 2", "done")
	back := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return len(shown) == 15 })
	assert.Contains(t, back, "produce-2")
	say("freeze 3", "done")
	say("thaw 3", "done")
	say("kill 9", "broker 9 is not running")
	say("kill", "stop N, kill N")
	say("stats", "heartbeat-3")
	interrupt()
	assert.Equal(t, exitOK, <-ended, errs.String())
}

func TestBadFlags(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, exitUsage, run(t.Context(), []string{"-no-such-flag"}, nil, io.Discard, &errs))
	assert.Contains(t, errs.String(), "flag provided but not defined")
	assert.Contains(t, errs.String(), "-debug-addr address")
	for _, args := range []string{"-h", "demo -h"} {
		assert.Equal(t, exitOK, run(t.Context(), strings.Fields(args), nil, io.Discard, io.Discard))
	}
	for _, args := range []string{"-brokers 0", "-brokers -1", "-min-insync 0", "-port 70000", "extra", "demo extra", "demo -rate 0", "demo -brokers 3"} {
		assert.Equal(t, exitUsage, run(t.Context(), strings.Fields(args), nil, io.Discard, io.Discard), args)
	}
	errs.Reset()
	assert.Equal(t, exitBroken, run(t.Context(), []string{"-debug-addr", "6060"}, nil, io.Discard, &errs))
	assert.Contains(t, errs.String(), "debug page: ")
}

// TestDemo: a short run loses nothing and has nothing twice, though each broker has
// an accident.
func TestDemo(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, exitOK, run(t.Context(), strings.Fields("demo -duration 7s -rate 300"), nil, &out, &errs), "%s%s", &out, &errs)
	for _, text := range []string{"broker 2 is killed", "broker 3 is thawed", "lost                 0 ", "twice                0 "} {
		assert.Contains(t, out.String(), text)
	}
	assert.NotContains(t, out.String(), "debug page")
}

// TestADemoInWhichNothingHappened fails: it was interrupted before the first record.
func TestADemoInWhichNothingHappened(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, exitBroken, run(t.Context(), strings.Fields("demo -duration 1ns"), nil, &out, &errs), "%s", &out)
	assert.Contains(t, errs.String(), errNothing.Error())
}

// With -debug-addr the page shows produces, fetches and members of the group; an
// interrupt ends the run with its table.
func TestDebugPageOfADemo(t *testing.T) {
	out, end := debugservertest.Start(t, func(ctx context.Context, out, errs io.Writer) int {
		return run(ctx, strings.Fields("demo -duration 1h -rate 300 -debug-addr 127.0.0.1:0"), nil, out, errs)
	})
	out.Until(t, func(shown map[string]debug.PurgatoryView) bool {
		var produces, fetches, members int64
		for _, broker := range []string{"1", "2", "3"} {
			produces += shown["produce-"+broker].Accepted
			fetches += shown["fetch-"+broker].Accepted
			members += shown["heartbeat-"+broker].Pending
		}
		return len(shown) == 15 && produces > 0 && fetches > 0 && members == consumers
	})
	status, errs := end()
	assert.Equal(t, exitOK, status, errs)
	assert.Contains(t, out.String(), "lost                 0 ")
}

// TestVerdicts: each thing that may go wrong is found in the ledger.
func TestVerdicts(t *testing.T) {
	for want, spoil := range map[error]func(*ledger){
		nil:        func(*ledger) {},
		errNothing: func(l *ledger) { l.mu.latencies = nil },
		errLost:    func(l *ledger) { l.mu.records[0].inLog = 0 },
		errTwice:   func(l *ledger) { l.mu.records[0].inLog = 2 },
		errBehind:  func(l *ledger) { l.mu.records[0].inGroup = 0 },
	} {
		var l ledger
		value := l.next()
		l.answered(value, nil)
		l.log(value)
		l.group(value)
		spoil(&l)
		require.Equal(t, want, l.verdict())
	}
}
