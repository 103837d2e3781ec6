package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/examples/internal/program/programtest"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// In a bubble time passes only while everybody sleeps: nobody is late by accident, and the numbers are known beforehand.
func TestRunInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"-sessions", "2000", "-daring", "0"}, &out, &errs)
		assert.Equal(t, program.OK, status)
		assert.Empty(t, errs.String())
		assert.Contains(t, out.String(), "silent sessions 100, found 100;")
		assert.Contains(t, out.String(), "sessions     1900   silent and found     100\n", "in the end")
		assert.Contains(t, out.String(), "each session ended exactly once")
	})
}

// Exactly at its deadline a session is never too late: the expiry comes after it, if at all.
func TestDaringSessionsInABubble(t *testing.T) {
	for _, daring := range []string{"50", "100"} {
		synctest.Test(t, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := run(t.Context(), []string{"-sessions", "2000", "-daring", daring, "-silent", "0"}, &out, &errs)
			assert.Equal(t, program.OK, status)
			assert.Empty(t, errs.String())
			assert.Contains(t, out.String(), "sessions     2000   silent and found       0\n")
			assert.NotContains(t, out.String(), "sessions     1")
			assert.Contains(t, out.String(), "silent sessions 0, found 0;")
			assert.Contains(t, out.String(), "each session ended exactly once: 0 fell silent and were found")
		})
	}
}

const nobodySpoke = "sessions: BROKEN: no session spoke in time: nothing happened that could show anything\n"

func TestRun(t *testing.T) {
	for name, args := range map[string][]string{
		"a bit of all":    {"-silent", "20", "-daring", "20"},
		"all fall silent": {"-silent", "100", "-daring", "0"},
		"one":             {"-sessions", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			for ms := 20; ; ms *= 4 {
				out.Reset()
				errs.Reset()
				times := fmt.Sprintf("-sessions 3000 -timeout %dms -heartbeat %dms -duration %dms", 10*ms, 2*ms, 35*ms)
				status := run(t.Context(), append(strings.Fields(times), args...), &out, &errs)
				if ms < 2000 && errs.String() == nobodySpoke { // the machine was busy for that long
					continue
				}
				assert.Equal(t, program.OK, status, "%s%s", &out, &errs)
				break
			}
			assert.Contains(t, out.String(), "each session ended exactly once")
		})
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &programtest.Writer{At: "heartbeats", Reached: interrupt}
	var errs bytes.Buffer
	assert.Equal(t, program.OK, run(ctx, []string{"-sessions", "1000", "-duration", "1h"}, out, &errs), errs.String())
	assert.Contains(t, out.String(), "interrupted")
	assert.Contains(t, out.String(), "each session ended exactly once")
}

// With -debug-addr the page shows the sessions while the program runs.
func TestDebugPage(t *testing.T) {
	out, end := debugservertest.Start(t, func(ctx context.Context, out, errs io.Writer) int {
		return run(ctx, []string{"-sessions", "1000", "-duration", "1h", "-debug-addr", "127.0.0.1:0"}, out, errs)
	})
	shown := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return shown["session"].Stats.Accepted == 1000 })
	if status, errs := end(); status != program.OK {
		assert.Contains(t, errs, "no session spoke in time", "the interrupt came before the first heartbeat")
	}
	assert.NotNil(t, shown["session"].Stats.Waited)
	assert.Len(t, shown, 1)
}

// What is promised is really checked: each way to break it is noticed.
func TestBrokenPromisesAreNoticed(t *testing.T) {
	for _, test := range []struct {
		name string
		harm func(*crowd)
		want string
	}{
		{"a silent one is not found", func(c *crowd) { c.all[0].lastWords = time.Second }, "session 0 has fallen silent at 1s and was not found"},
		{"found twice", func(c *crowd) { c.all[1].OnExpiration() }, "session 1 was found 2 times, and has ended as expired"},
		{"found and not expired", func(c *crowd) { c.all[0].OnExpiration() }, "session 0 was found 1 times, and has ended as satisfied"},
		{"ended twice", func(c *crowd) { c.all[0].OnComplete() }, "session 0 ended 2 times"},
		{"spoke in time and was found", func(c *crowd) { c.all[1].spoke = time.Hour }, "session 1 spoke in time and was found"},
		{"spoke in time and was refused", func(c *crowd) { c.all[1].refused = 1 }, "session 1 was refused a heartbeat that was in time"},
		{"refused and not found", func(c *crowd) { c.all[0].refused = time.Hour }, "session 0 was refused a heartbeat and was not found"},
		{"counted wrongly", func(c *crowd) { c.all = c.all[:1] }, "there are 1 sessions, the registry counts 1 satisfied, 1 expired, 0 pending"},
		{"nobody spoke", func(c *crowd) { c.spoken.Store(0) }, "no session spoke in time: nothing happened"},
		{"of each kind the first", func(c *crowd) { c.all[0].OnComplete(); c.all[1].OnComplete() }, "session 0 ended 2 times"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := ended(t)
			require.Empty(t, c.verify())
			test.harm(c)
			assert.Contains(t, strings.Join(c.verify(), "\n"), test.want)
		})
	}
}

// ended returns a crowd of two: the first said goodbye, the second fell silent and was found.
func ended(t *testing.T) *crowd {
	t.Helper()
	p, err := purgatory.New[sessionID]("session")
	require.NoError(t, err)
	c := newCrowd(config{}, p)
	for i, lastWords := range []time.Duration{talkative, 0} {
		s := &session{id: sessionID(i), notes: notes{lastWords: lastWords, spoke: c.now()}}
		c.timeout = time.Millisecond
		if lastWords == talkative {
			c.timeout = time.Hour
		}
		require.NoError(t, c.open(s))
		c.all = append(c.all, s)
	}
	c.spoken.Add(1)
	c.leave(c.all[0])
	require.NoError(t, p.Shutdown(t.Context()))
	require.Equal(t, operation.Expired, c.all[1].Outcome())
	return c
}

func TestBadFlagsSayWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-sessions", "0"}, "-sessions 0: allowed is 1 to 10000000"},
		{[]string{"-timeout", "1ms"}, "-timeout 1ms: allowed is 10ms to 1h0m0s"},
		{[]string{"-heartbeat", "2s"}, "-heartbeat 2s: allowed is 1ms to 1.5s"},
		{[]string{"-silent", "101"}, "-silent 101: allowed is 0 to 100"},
		{[]string{"-silent", "60", "-daring", "50"}, "-daring 50: allowed is 0 to 40"},
		{[]string{"-duration", "3s"}, "-duration 3s: allowed is 4s to 24h0m0s"},
		{[]string{"-no-such-flag"}, "flag provided but not defined"},
		{[]string{"many"}, `unexpected argument "many"`},
	} {
		var errs bytes.Buffer
		assert.Equal(t, program.Usage, run(t.Context(), test.args, io.Discard, &errs), "%v", test.args)
		assert.Contains(t, errs.String(), test.want)
	}
}

func TestHelpExplainsEveryFlag(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, program.OK, run(t.Context(), []string{"-h"}, io.Discard, &errs))
	for flag, unit := range map[string]string{
		"sessions": "number", "timeout": "duration", "heartbeat": "duration", "silent": "percent", "daring": "percent",
		"duration": "duration", "debug-addr": "address",
	} {
		assert.Contains(t, errs.String(), "  -"+flag+" "+unit+"\n")
	}
}
