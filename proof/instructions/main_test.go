package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { os.Exit(watchdog.Over(m).Run()) }

func TestWhatValgrindHasCollectedIsRead(t *testing.T) {
	n, err := collected("==17== Events    : Ir\n==17== Collected : 24796342\n==17== \n==17== I   refs:      1")
	require.NoError(t, err)
	assert.Equal(t, 24796342, n)
	_, err = collected("Process terminating")
	require.ErrorContains(t, err, "Process terminating")
}

func TestARowHasMediansAndTheirRatio(t *testing.T) {
	assert.Equal(t, "life                                     2000       1500   0.750\n", row("life", [][]int{{2000, 1000, 9000}, {1500, 1600, 1}}))
	assert.Equal(t, "life                                                1500\n", row("life", [][]int{{1500}}))
}

func TestARevisionThatIsNotThereIsAnError(t *testing.T) {
	root, err := command(t.Context(), ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Skip("a copy that git does not know: ", err)
	}
	folder := t.TempDir()
	require.ErrorContains(t, buildOf(t.Context(), root, folder, "no-such-revision", folder+"/there"), "no-such-revision")
}
