package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain is a node in the processes that a demo starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func TestAnInterruptedDemoDoesNotFail(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		var out, errs bytes.Buffer
		require.Equal(t, exitOK, run(ctx, []string{"demo", "-duration", "1h"}, &out, &errs), errs.String())
		require.Contains(t, out.String(), "interrupted")
		cancel()
	}
}

func TestBadCommandLines(t *testing.T) {
	folder := t.TempDir()
	node := func(more ...string) []string {
		return append([]string{"node", "-id", "n1", "-listen", "127.0.0.1:9", "-data", folder + "/n1"}, more...)
	}
	for _, test := range []struct {
		args []string
		want int
		says string
	}{
		{nil, exitUsage, "first argument"},
		{[]string{"serve"}, exitUsage, "first argument"},
		{[]string{"node", "-port", "1"}, exitUsage, "-port"},
		{[]string{"demo", "fast"}, exitUsage, `"fast"`},
		{[]string{"demo", "-duration", "1ms"}, exitUsage, "at least 1 s"},
		{[]string{"check", "-seeds", "0"}, exitUsage, "at least 1"},
		{[]string{"check", "-seeds", "many"}, exitUsage, "many"},
		{[]string{"check", "-faults", "earthquake"}, exitUsage, "earthquake"},
		{[]string{"check", "-defect", "skip-verify"}, exitUsage, "raftkv_defects"},
		{[]string{"node"}, exitBroken, "id"},
		{node("-bootstrap", "n2"), exitUsage, "A=B"},
		{node("-bootstrap", "n2=127.0.0.1:9"), exitBroken, `"n1", is not among`},
		{node("-log", "loud"), exitUsage, "loud"},
		{node("-heartbeat", "-1s"), exitBroken, "negative"},
		{node("-heartbeat", "1ns", "-join"), exitBroken, "eartbeat"},
		{node(), exitBroken, "raftkv: data folder"},
		{node(), exitBroken, "there is no node in it"},
		{[]string{"node", "-h"}, exitOK, "-bootstrap"},
	} {
		var out, errs bytes.Buffer
		// Whatever does start is told to stop at once.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.Equal(t, test.want, run(ctx, test.args, &out, &errs), "%q: %s", test.args, errs.String())
		require.Contains(t, errs.String(), test.says, "%q", test.args)
		require.LessOrEqual(t, strings.Count(errs.String(), "raftkv: "), 1, "%q: the prefix stands once", test.args)
	}
	require.NoDirExists(t, folder+"/n1")
}
