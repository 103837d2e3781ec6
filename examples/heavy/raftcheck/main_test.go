package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/internal/program"
)

func TestAnInterruptedDemoDoesNotFail(t *testing.T) {
	member := build(t, "raftkv")
	for _, after := range []time.Duration{0, time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		var out, errs bytes.Buffer
		require.Equal(t, program.OK, run(ctx, []string{"demo", "-member", member, "-duration", "1h"}, &out, &errs), errs.String())
		require.Contains(t, out.String(), "interrupted")
		cancel()
	}
}

func TestBadCommandLines(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{nil, "first argument"},
		{[]string{"serve"}, "first argument"},
		{[]string{"demo", "fast"}, `"fast"`},
		{[]string{"demo", "-duration", "1ms"}, "at least 1 s"},
		{[]string{"check", "-seeds", "0"}, "at least 1"},
		{[]string{"check", "-seeds", "many"}, "many"},
		{[]string{"check", "-faults", "earthquake"}, "earthquake"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, program.Usage, run(t.Context(), test.args, &out, &errs), "%q: %s", test.args, errs.String())
		require.Contains(t, errs.String(), test.says, "%q", test.args)
	}
}
