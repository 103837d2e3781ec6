package docs

import (
	"os"
	"testing"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { os.Exit(watchdog.Over(m).Run()) }
