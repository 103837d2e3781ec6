package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/internal/defect"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func TestBadCommandLines(t *testing.T) {
	folder := t.TempDir()
	node := func(more ...string) []string {
		return append([]string{"-id", "n1", "-listen", "127.0.0.1:9", "-data", folder + "/n1"}, more...)
	}
	for _, test := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"-port", "1"}, program.Usage, "-port"},
		{[]string{"serve"}, program.Usage, "serve"},
		{nil, program.Failed, "id"},
		{node("-bootstrap", "n2"), program.Usage, "A=B"},
		{node("-bootstrap", "n2=127.0.0.1:9"), program.Failed, `"n1", is not among`},
		{node("-log", "loud"), program.Usage, "loud"},
		{node("-heartbeat", "-1s"), program.Failed, "negative"},
		{node("-heartbeat", "1ns", "-join"), program.Failed, "eartbeat"},
		{node(), program.Failed, "data folder"},
		{node(), program.Failed, "there is no node in it"},
		{[]string{"-h"}, program.OK, "-bootstrap"},
	} {
		var out, errs bytes.Buffer
		// Whatever does start is told to stop at once.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.Equal(t, test.want, run(ctx, test.args, &out, &errs), "%q: %s", test.args, errs.String())
		require.Contains(t, errs.String(), test.says, "%q", test.args)
	}
	require.NoDirExists(t, folder+"/n1")
}

// A defect that is not built in must not look as if it had been tried.
func TestADefectNeedsItsBinary(t *testing.T) {
	require.False(t, defect.Available)
	t.Setenv(defect.Variable, "skip-verify")
	var out, errs bytes.Buffer
	require.Equal(t, program.Usage, run(t.Context(), []string{"-id", "n1"}, &out, &errs))
	require.Contains(t, errs.String(), "raftkv_defects")
}
