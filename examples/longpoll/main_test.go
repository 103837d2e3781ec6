package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/examples/internal/program/programtest"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/purgatory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func TestDemo(t *testing.T) {
	for name, args := range map[string][]string{
		"some messages are gone": {"-demo-rate", "200", "-max-messages", "5"},
		"nothing is gone":        {"-demo-topics", "1"},
		"short waits configured": {"-max-wait", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{"-demo", "-demo-duration", "300ms", "-demo-pollers", "20"}, args...)
			assert.Equal(t, program.OK, run(t.Context(), args, &out, &errs), "%s%s", &out, &errs)
			assert.Empty(t, errs.String())
			assert.Contains(t, out.String(), "shutdown: 20 GETs were waiting, 20 pollers were answered 503 with Retry-After")
			assert.Contains(t, out.String(), "once and in order")
		})
	}
}

// complaints are a log's warnings and errors, but for the one that says that the machine was busy.
func complaints(log string) (all []string) {
	for line := range strings.Lines(log) {
		if !strings.Contains(line, purgatory.EventLate) {
			all = append(all, line)
		}
	}
	return all
}

// A demo in which nothing happens has shown nothing, and fails.
func TestDemoInterruptedAtOnceFails(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &programtest.Writer{At: "serving on", Reached: interrupt}
	var errs bytes.Buffer
	assert.Equal(t, program.Failed, run(ctx, []string{"-demo", "-demo-duration", "1h", "-demo-pollers", "3", "-demo-rate", "1"}, out, &errs))
	assert.Contains(t, errs.String(), "no poller was sent a message")
}

// With -debug-addr the page shows the GETs that wait while the program runs. An interrupt ends it with its verdict.
func TestDebugPage(t *testing.T) {
	out, end := debugservertest.Start(t, func(ctx context.Context, out, errs io.Writer) int {
		return run(ctx, []string{"-demo", "-demo-duration", "1h", "-demo-pollers", "3", "-debug-addr", "127.0.0.1:0"}, out, errs)
	})
	shown := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return shown["poll"].Stats.Accepted > 3 }) // so a message has come
	status, errs := end()
	assert.Equal(t, program.OK, status, errs)
	assert.Contains(t, out.String(), "once and in order")
	assert.NotNil(t, shown["poll"].Stats.Waited)
	assert.Len(t, shown, 1)
}

// What the demo promises it really checks: a message that was not sent to a poller fails it.
func TestDemoNoticesALostMessage(t *testing.T) {
	p := &poller{topic: "t", sentAway: true}
	require.NoError(t, p.take([]message{{0, "1"}, {1, "2"}}))
	assert.NoError(t, p.verdict(2))
	assert.ErrorContains(t, p.verdict(3), "was sent 2 messages of 3, and told of 0 that it missed")
	assert.ErrorContains(t, p.take([]message{{1, "2"}}), "got offset 1, the next is 2")
	assert.ErrorContains(t, p.take([]message{{3, "4"}}), "got offset 3, the next is 2")
	require.NoError(t, p.skipTo(4))
	assert.NoError(t, p.verdict(4))
	assert.ErrorContains(t, p.skipTo(4), "offset 4 is said to be gone, and the oldest to be 4")
	p.sentAway = false
	assert.ErrorContains(t, p.verdict(4), "was not sent away")
}

func TestServeUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &programtest.Writer{At: "listening on http://127.0.0.1:", Reached: interrupt}
	var errs bytes.Buffer
	assert.Equal(t, program.OK, run(ctx, []string{"-listen", "127.0.0.1:0"}, out, &errs))
	assert.Empty(t, complaints(errs.String()))
	assert.Contains(t, out.String(), "shutting down: 0 waiting requests are answered")
}

func TestAddressInUse(t *testing.T) {
	s := serving(t)
	var errs bytes.Buffer
	assert.Equal(t, program.Failed, run(t.Context(), []string{"-listen", s.listener.Addr().String()}, io.Discard, &errs))
	assert.Contains(t, errs.String(), "longpoll: listen tcp")
}

func TestBadFlagsSayWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-listen", "8080"}, `-listen "8080": must be host:port`},
		{[]string{"-max-topics", "0"}, "-max-topics 0: allowed is 1 to 1000000"},
		{[]string{"-max-messages", "0"}, "-max-messages 0: allowed is 1 to 1000000"},
		{[]string{"-max-message-size", "0"}, "-max-message-size 0: allowed is 1 to 67108864"},
		{[]string{"-max-waiting", "-1"}, "-max-waiting -1: allowed is 1 to 10000000"},
		{[]string{"-max-wait", "25h"}, "-max-wait 25h0m0s: allowed is 0s to 24h0m0s"},
		{[]string{"-write-timeout", "0"}, "-write-timeout 0s: allowed is 1ms to 1h0m0s"},
		{[]string{"-shutdown-timeout", "0"}, "-shutdown-timeout 0s: allowed is 1ms to 1h0m0s"},
		{[]string{"-demo-duration", "0"}, "-demo-duration 0s: allowed is 10ms to 1h0m0s"},
		{[]string{"-demo-topics", "65"}, "-demo-topics 65: allowed is 1 to 64"},
		{[]string{"-demo-rate", "0"}, "-demo-rate 0: allowed is 1 to 10000"},
		{[]string{"-demo-pollers", "50", "-max-waiting", "50"}, "-demo-pollers 50: allowed is 1 to 49"},
		{[]string{"-max-wait", "10"}, `invalid value "10" for flag -max-wait`},
		{[]string{"-no-such-flag"}, "flag provided but not defined"},
		{[]string{"-demo", "8080"}, `unexpected argument "8080"`},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, program.Usage, run(t.Context(), append(test.args, "-demo"), &out, &errs), "%v", test.args)
		assert.Contains(t, errs.String(), test.want)
		assert.Empty(t, out.String(), "nothing has been started")
	}
}

func TestHelpExplainsEveryFlag(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, program.OK, run(t.Context(), []string{"-h"}, &out, &errs))
	for _, flag := range []string{
		"listen address", "max-topics number", "max-messages number", "max-message-size bytes", "max-waiting number", "max-wait duration",
		"write-timeout duration", "shutdown-timeout duration", "demo", "demo-duration duration", "demo-topics number",
		"demo-rate number", "demo-pollers number", "debug-addr address",
	} {
		assert.Contains(t, errs.String(), "  -"+flag+"\n")
	}
}
