package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain runs the program where this binary is a process of the demo.
func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// within returns a context that ends the test with a message rather than hang the run.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Minute, errors.New("the test took four minutes"))
	t.Cleanup(cancel)
	return ctx
}

// TestDemo is the demo in five seconds, with 300 polls.
func TestDemo(t *testing.T) {
	for _, engine := range []string{engineNATS, engineSubjects, enginePostgres} {
		t.Run(engine, func(t *testing.T) {
			ctx := within(t)
			var out bytes.Buffer
			err := runDemo(ctx, io.MultiWriter(&out, t.Output()), []string{"-engine", engine, "-polls", "300", "-keys", "30", "-step", "200ms"})
			if errors.Is(err, errNoPostgres) {
				t.Skip("SKIPPED: ", err)
			}
			require.NoError(t, err)
			require.NoError(t, context.Cause(ctx))
			assert.Regexp(t, "[1-9][0-9]* gaps, .* lost 0, answered twice 0\n", out.String())
			for _, a := range accidents {
				assert.Contains(t, out.String(), a.what)
			}
			if engine != enginePostgres {
				assert.Regexp(t, `killed between its commit and its hint \(core NATS\): 100 waits answered .*; 0 hints, [1-9]`, out.String())
			}
		})
	}
}

func TestFigures(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, runFigures(within(t), io.MultiWriter(&out, t.Output()), []string{"-puts", "20", "-cuts", "5"}))
	for _, engine := range []string{engineNATS, engineSubjects} {
		assert.Regexp(t, engine+` +idle, 20 puts: `, out.String())
		assert.Regexp(t, engine+` +5 cuts: .* [1-9][0-9]* gaps`, out.String())
	}
	assert.Regexp(t, enginePostgres+` +(5 cuts|SKIPPED)`, out.String())
}

func TestWhatDoesNotExistIsAnError(t *testing.T) {
	ctx := within(t)
	assert.Error(t, runDemo(ctx, io.Discard, []string{"-engine", "none"}))
	assert.Error(t, runDemo(ctx, io.Discard, []string{"-engine", "nats", "-url", "127.0.0.1:1"}))
	assert.Error(t, runFigures(ctx, io.Discard, []string{"-engine", "none"}))
	assert.Error(t, runReplica(ctx, []string{"-engine", "none"}))
}

// TestAReplicaThatCannotServeEnds although nobody has told it to.
func TestAReplicaThatCannotServeEnds(t *testing.T) {
	ctx := within(t)
	server, addr, url, err := startServer(ctx, engineNATS, t.TempDir())
	require.NoError(t, err)
	defer server.stop()
	err = runReplica(ctx, []string{"-addr", "127.0.0.1:0", "-url", url(addr), "-tls-cert", "none.pem", "-tls-key", "none.pem"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, context.Cause(ctx))
}

func TestTheClientIsThatOfTheReadme(t *testing.T) {
	code, err := os.ReadFile("client/main.go")
	require.NoError(t, err)
	_, body, found := strings.Cut(string(code), "\nfunc main() {\n")
	require.True(t, found)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "```go\nfunc main() {\n"+body+"```")
}
