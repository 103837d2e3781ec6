package main

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A short run loses nothing, though one of its brokers is killed.
func TestDemo(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, exitOK, run(t.Context(), []string{"-duration", "6s", "-rate", "300", "-crash"}, &out, &errs), "%s%s", &out, &errs)
	assert.Contains(t, out.String(), "broker 2 is killed")
	assert.Contains(t, out.String(), "lost                 0 ")
	assert.NotContains(t, out.String(), "debug page")
}

// With -debug-addr the page shows produces, fetches and members of the group; an
// interrupt ends the run with its table.
func TestDebugPage(t *testing.T) {
	out, end := debugservertest.Start(t, func(ctx context.Context, out, errs io.Writer) int {
		return run(ctx, []string{"-duration", "1h", "-rate", "300", "-debug-addr", "127.0.0.1:0"}, out, errs)
	})
	out.Until(t, func(shown map[string]debug.PurgatoryView) bool {
		var produces, fetches, members int64
		for _, broker := range []string{"1", "2", "3"} {
			produces += shown["produce-"+broker].Accepted
			fetches += shown["fetch-"+broker].Accepted
			members += shown["heartbeat-"+broker].Pending
		}
		return len(shown) == 18 && produces > 0 && fetches > 0 && members == consumers
	})
	status, errs := end()
	assert.Equal(t, exitOK, status, errs)
	assert.Contains(t, out.String(), "lost                 0 ")
}

func TestBadFlags(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, exitUsage, run(t.Context(), []string{"-no-such-flag"}, io.Discard, &errs))
	assert.Contains(t, errs.String(), "flag provided but not defined")
	assert.Equal(t, exitOK, run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}
