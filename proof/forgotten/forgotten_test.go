package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/built"
)

func TestTheCallsAreFound(t *testing.T) {
	const before = `package p

import "sync"

func change(p purgatory, c *sync.Cond, process interface{ Signal(int) error }, keys []string) {
	p.CheckAndComplete(keys...)
	c.Signal()
	_ = process.Signal(9)
	defer func() { p.queue(func() { p.all[0].SignalUpTo("a",
		3) }) }()
}
`
	dir := t.TempDir()
	path := filepath.Join(dir, "examples", "p.go")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "examples", "p_test.go"), []byte(before), 0o600))
	all, err := calls(dir, "examples")
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "examples/p.go:6: p.CheckAndComplete(keys...)", all[0].String())
	assert.Equal(t, strings.Replace(before, "p.CheckAndComplete(keys...)", "_ = []any{p, keys}", 1), string(all[0].takenOut([]byte(before))))
	assert.Contains(t, string(all[1].takenOut([]byte(before))), `p.queue(func() { _ = []any{p.all[0], "a", 3} })`)
}

// Every example's calls are taken out by make forgotten. Here it is one of a small example.
func TestAForgottenCheckOfAnExampleIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds an example twice")
	}
	r, done, err := newRunner("../..", time.Minute, "-test.run", "TestRunInABubble")
	require.NoError(t, err)
	defer done()
	r.build = built.Flags()
	all, err := calls(r.root, "examples/sessions")
	require.NoError(t, err)
	require.Len(t, all, 1)
	found, err := r.takeOut(t.Context(), all[0], map[string]bool{})
	require.NoError(t, err)
	assert.Regexp(t, `^purgatory session: \*main.session waited for \d+, and no check or signal names this key$`, found.check)
	assert.Equal(t, "examples/sessions", found.folder)
}
