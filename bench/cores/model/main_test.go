package model

import (
	"os"
	"testing"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { os.Exit(watchdog.Over(m).Run()) }

// shorten makes the simulations of a test a fourth as long: those of many cores take seconds under the race detector.
func shorten(t *testing.T) {
	t.Helper()
	whole := length
	length /= 4
	t.Cleanup(func() { length = whole })
}
