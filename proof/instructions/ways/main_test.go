package main

import (
	"os"
	"testing"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { os.Exit(watchdog.Over(m).Run()) }

// A way panics if the library does not do what is counted.
func TestEveryWayCanBeGone(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(*testing.T) { w.run(3 * batch) })
	}
}
