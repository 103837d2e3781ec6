package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingIsLeftOfADemo ends the demo at several lines of its output. Every process that
// it has started holds the writing end of the pipe to which it prints: the last one that
// ends closes it.
func TestNothingIsLeftOfADemo(t *testing.T) {
	for _, c := range []struct{ engine, at string }{
		{engineNATS, "replica 1 is at"}, {engineNATS, "replica 2 is frozen"}, {enginePostgres, "replica 2 is frozen"},
	} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			t.Run(c.engine+", "+c.at+", "+s.String(), func(t *testing.T) {
				t.Parallel()
				endDemo(t, c.engine, c.at, s)
			})
		}
	}
}

func endDemo(t *testing.T, engine, at string, s syscall.Signal) {
	dir, err := os.MkdirTemp("", "end")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755)) // PostgreSQL may run as another user
	output, printed, err := os.Pipe()
	require.NoError(t, err)
	defer output.Close()
	demo := exec.Command(os.Args[0], "demo", "-engine", engine, "-polls", "50", "-keys", "5", "-step", "100ms")
	demo.Stdout, demo.Stderr = printed, printed
	demo.Env = append(os.Environ(), child+"=1", "TMPDIR="+dir)
	line, err := lifeline()
	require.NoError(t, err)
	demo.ExtraFiles = line[:1]
	// A session of its own, as a terminal has: the test's may hold the process that becomes
	// the parent of the demo's processes, and then the system does not continue a frozen one.
	demo.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, demo.Start())
	printed.Close()
	require.NoError(t, output.SetReadDeadline(time.Now().Add(2*time.Minute)))
	signalled, none := false, false
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		t.Log(lines.Text())
		none = none || strings.Contains(lines.Text(), errNoPostgres.Error())
		if !signalled && strings.Contains(lines.Text(), at) {
			signalled = true
			require.NoError(t, syscall.Kill(-demo.Process.Pid, s))
		}
	}
	require.NoError(t, lines.Err(), "a process is left")
	err = demo.Wait()
	if none {
		t.Skip("SKIPPED: ", errNoPostgres)
	}
	require.True(t, signalled)
	if s == syscall.SIGKILL {
		return
	}
	require.NoError(t, err, "the exit status")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
