package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/workload"
)

// What the program prints when it is started for one turn is what it reads back.
func TestOneTurnPrintsItsResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = f
	err = run([]string{"-only", "^thresholds$", "-turn", "2", "-rounds", "1", "-window", "1ns"})
	os.Stdout = stdout
	require.NoError(t, err)
	require.NoError(t, f.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	set, err := result.ParseJSON(b)
	require.NoError(t, err)
	require.Len(t, set.Samples, 1)
	assert.Equal(t, "H1", set.Samples[0].Workload)
	assert.Equal(t, "ours-unordered", set.Samples[0].Peer)
}

// A child counts the same turns as who has started it.
func TestATurnIsTakenWithTheOptionsOfItsRun(t *testing.T) {
	for _, args := range [][]string{nil, {"-quick"}, {"-rounds", "3", "-window", "7ms"}} {
		whole, err := flags(args)
		require.NoError(t, err)
		turn, err := flags(turnArgs(whole, workload.Family{Name: "a+b"}, 5))
		require.NoError(t, err)
		whole.turn, whole.only, whole.custom = 5, *regexp.MustCompile(`^a\+b$`), true
		assert.Equal(t, whole, turn)
	}
}

func TestATurnThatCannotBeIsRefused(t *testing.T) {
	require.ErrorContains(t, run([]string{"-turn", "-1"}), "-1")
}
