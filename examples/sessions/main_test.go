package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// In a bubble time passes only while everybody sleeps: nobody is late by accident, and the numbers are known beforehand.
func TestRunInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"-sessions", "2000", "-daring", "0"}, &out, &errs)
		assert.Equal(t, exitOK, status)
		assert.Empty(t, errs.String())
		assert.Contains(t, out.String(), "silent sessions     100, found 100;")
		assert.Contains(t, out.String(), "late by accident    0 sessions")
		assert.Contains(t, out.String(), "each session ended exactly once")
	})
}

// Exactly at its deadline a session is never too late: the expiry comes after it, if at all.
func TestDaringSessionsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"-sessions", "2000", "-daring", "50", "-silent", "0", "-seed", "7"}, &out, &errs)
		assert.Equal(t, exitOK, status)
		assert.Empty(t, errs.String())
		assert.Contains(t, out.String(), "0 too late")
		assert.Contains(t, out.String(), "silent sessions     0, found 0\n")
	})
}

func TestRun(t *testing.T) {
	for name, args := range map[string][]string{
		"a bit of all":    {"-silent", "20", "-daring", "20"},
		"all fall silent": {"-silent", "100", "-daring", "0"},
		"all dare":        {"-silent", "0", "-daring", "100"},
		"one":             {"-sessions", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{"-sessions", "3000", "-timeout", "200ms", "-heartbeat", "40ms", "-duration", "700ms"}, args...)
			assert.Equal(t, exitOK, run(t.Context(), args, &out, &errs), "%s%s", &out, &errs)
			assert.Contains(t, out.String(), "each session ended exactly once")
		})
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &watchedWriter{at: "heartbeats", reached: interrupt}
	var errs bytes.Buffer
	assert.Equal(t, exitOK, run(ctx, []string{"-sessions", "1000", "-duration", "1h"}, out, &errs), errs.String())
	assert.Contains(t, out.String(), "interrupted")
	assert.Contains(t, out.String(), "each session ended exactly once")
}

// With -debug-addr the page shows the sessions while the program runs.
func TestDebugPage(t *testing.T) {
	out, end := debugservertest.Start(t, func(ctx context.Context, out, errs io.Writer) int {
		return run(ctx, []string{"-sessions", "1000", "-duration", "1h", "-debug-addr", "127.0.0.1:0"}, out, errs)
	})
	shown := out.Until(t, func(shown map[string]debug.PurgatoryView) bool { return shown["session"].Accepted == 1000 })
	status, errs := end()
	assert.Equal(t, exitOK, status, errs)
	assert.True(t, shown["session"].Timed)
	assert.Len(t, shown, 1)
}

// What is promised is really checked: each way to break it is noticed.
func TestBrokenPromisesAreNoticed(t *testing.T) {
	for _, test := range []struct {
		name string
		harm func(*crowd)
		want string
	}{
		{"a silent one is not found", func(c *crowd) { c.sessions[0].lastWords = time.Second }, "session 0 has fallen silent at 1s and was not found"},
		{"found twice", func(c *crowd) { c.sessions[1].OnExpiration() }, "session 1 was found 2 times, and has ended as expired"},
		{"found and not expired", func(c *crowd) { c.sessions[0].OnExpiration() }, "session 0 was found 1 times, and has ended as satisfied"},
		{"ended twice", func(c *crowd) { c.sessions[0].OnComplete() }, "session 0 ended 2 times"},
		{"spoke in time and was found", func(c *crowd) { c.sessions[1].spoke = time.Hour }, "session 1 spoke in time and was found"},
		{"spoke in time and was refused", func(c *crowd) { c.sessions[1].wrongly = true }, "session 1 was refused a heartbeat that was in time"},
		{"refused and not found", func(c *crowd) { c.sessions[0].refused = true }, "session 0 was refused a heartbeat and was not found"},
		{"counted wrongly", func(c *crowd) { c.sessions = c.sessions[:1] }, "the registry counts 1 sessions as expired, there are 0"},
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
	c := &crowd{cfg: config{timeout: time.Millisecond}, registry: p, run: &observed{start: time.Now()}}
	for i, lastWords := range []time.Duration{talkative, 0} {
		s := &session{run: c.run, id: sessionID(i), lastWords: lastWords}
		c.sessions = append(c.sessions, s)
		timeout := c.cfg.timeout
		if lastWords == talkative {
			timeout = time.Hour
		}
		require.NoError(t, s.open(p, timeout))
	}
	c.sessions[0].leave(p)
	require.NoError(t, p.Shutdown(t.Context()))
	require.Equal(t, operation.Expired, c.sessions[1].Outcome())
	return c
}

func TestComplaintsAreFew(t *testing.T) {
	var r complaints
	for i := range 5 {
		r.addf("session %d is lost", i)
	}
	r.addf("session %d was found twice", 9)
	assert.Equal(t, []string{
		"session 0 is lost", "session 1 is lost", "session 2 is lost", "… and 2 more like it", "session 9 was found twice",
	}, r.all())
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
		{[]string{"-goroutines", "0"}, "-goroutines 0: allowed is 1 to 1000"},
		{[]string{"-duration", "3s"}, "-duration 3s: allowed is 4s to 24h0m0s"},
		{[]string{"-seed", "-1"}, `invalid value "-1" for flag -seed`},
		{[]string{"-no-such-flag"}, "flag provided but not defined"},
		{[]string{"many"}, `unexpected argument "many"`},
	} {
		var errs bytes.Buffer
		assert.Equal(t, exitUsage, run(t.Context(), test.args, io.Discard, &errs), "%v", test.args)
		assert.Contains(t, errs.String(), test.want)
	}
}

func TestHelpExplainsEveryFlag(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, exitOK, run(t.Context(), []string{"-h"}, io.Discard, &errs))
	for flag, unit := range map[string]string{
		"sessions": "number", "timeout": "duration", "heartbeat": "duration", "silent": "percent", "daring": "percent",
		"goroutines": "number", "duration": "duration", "seed": "number", "debug-addr": "address",
	} {
		assert.Contains(t, errs.String(), "  -"+flag+" "+unit+"\n")
	}
}

// watchedWriter calls reached when a text has been written.
type watchedWriter struct {
	at      string
	reached func()

	mu      sync.Mutex
	written strings.Builder
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(p, []byte(w.at)) {
		w.reached()
	}
	return w.written.Write(p)
}

func (w *watchedWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.String()
}
