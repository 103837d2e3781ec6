package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
)

// TestMain runs the program where this binary is a process of the demo.
func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(watchdog.Over(m))
}

// within returns a context that ends the test with a message rather than hang the run.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Minute, errors.New("the test took four minutes"))
	t.Cleanup(cancel)
	return ctx
}

// TestAProgramThatIsKeptSpeaksForItself: a server that ends because another one has its files yet is started again, and that is all.
func TestAProgramThatIsKeptSpeaksForItself(t *testing.T) {
	var said bytes.Buffer
	p, err := newProcess(&said, "keep", "sh", "-c", "echo why; exit 3")
	require.NoError(t, err)
	before := os.Stderr
	read, write, err := os.Pipe()
	require.NoError(t, err)
	os.Stderr = write
	err = p.start()
	os.Stderr = before
	require.NoError(t, err)
	p.await()
	require.NoError(t, write.Close())
	complaints, err := io.ReadAll(read)
	require.NoError(t, err)
	assert.Empty(t, string(complaints))
	assert.Equal(t, "why\n", said.String())
	assert.EqualError(t, p.failure, "exit status 3")
}

// TestDemo is the demo in five seconds, with 300 polls.
func TestDemo(t *testing.T) {
	for _, engine := range []string{engineNATS, engineSubjects, enginePostgres} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // each has servers and processes of its own
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
			var gaps []int
			for _, said := range regexp.MustCompile(`(\d+) gaps`).FindAllStringSubmatch(out.String(), -1) {
				n, _ := strconv.Atoi(said[1])
				gaps = append(gaps, n)
			}
			assert.IsNonDecreasing(t, gaps, "also when a replica is killed, or frozen")
			if engine != enginePostgres {
				assert.Regexp(t, `killed between its commit and its hint \(core NATS\): 100 waits answered .*; 0 hints, [1-9]`, out.String())
			}
		})
	}
}

// A run in which nothing happens, or too little, does not pass.
func TestTheVerdictOfADemo(t *testing.T) {
	healthy := [7]int{10_000, 1000, 9000, 990, 60_000, 0, 0}
	judge := func(change func(*[7]int)) error {
		n := healthy
		change(&n)
		return verdict(n[0], n[1], n[2], n[3], n[4], n[5], n[6])
	}
	assert.NoError(t, judge(func(*[7]int) {}))
	for what, change := range map[string]func(*[7]int){
		"the writer made no progress": func(n *[7]int) { n[2], n[3], n[4] = 0, 0, 0 },
		"puts to 100 of 1000 keys":    func(n *[7]int) { n[3] = 100 },
		"answered 0 times":            func(n *[7]int) { n[4] = 0 },
		"0 polls were answered":       func(n *[7]int) { n[0], n[4] = 0, 0 },
		"answered 5000 times":         func(n *[7]int) { n[4] = 5000 },
		"1 waits were lost":           func(n *[7]int) { n[5] = 1 },
		"and 1 answered twice":        func(n *[7]int) { n[6] = 1 },
	} {
		assert.ErrorContains(t, judge(change), what)
	}
}

// An interrupt ends the demo while it waits for puts that do not come. Without one it waits with patience.
func TestTheWaitForPutsEndsWithTheDemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &polls{}
		ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
		defer interrupt()
		began := time.Now()
		p.awaitPuts(ctx, 1)
		assert.Less(t, time.Since(began), 2*time.Second)
		began = time.Now()
		p.awaitPuts(t.Context(), 1)
		assert.Equal(t, patience, time.Since(began))
	})
}

func TestADemoOfNothingIsAnError(t *testing.T) {
	for _, nothing := range []string{"-polls=0", "-keys=0", "-step=0"} {
		assert.ErrorContains(t, demonstrate(within(t), io.Discard, []string{nothing}), "must be positive", nothing)
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
	_ = client // is only compiled: it never ends
	code, err := os.ReadFile("client_test.go")
	require.NoError(t, err)
	_, body, found := strings.Cut(string(code), "\nfunc client() {\n")
	require.True(t, found)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "```go\nfunc main() {\n"+body+"```")
}
