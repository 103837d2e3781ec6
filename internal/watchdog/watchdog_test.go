package watchdog_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { os.Exit(watchdog.Over(m).Run()) }

// hangs is the name of the environment variable that has TestHang hang in the way that it says.
const hangs = "WATCHDOG_HANGS"

var never chan struct{}

func wait() { <-never }

func TestHang(t *testing.T) {
	switch os.Getenv(hangs) {
	case "":
		t.Skip("runs as a child of TestAHangEndsWithTheNameOfItsTest")
	case "a test":
		wait()
	case "a loop":
		for os.Getenv(hangs) != "" {
		}
	case "a subtest":
		t.Run("sub", func(*testing.T) { wait() })
	case "a parallel subtest":
		t.Run("sub", func(t *testing.T) {
			t.Parallel()
			wait()
		})
	case "a bubble":
		synctest.Test(t, func(*testing.T) {
			for os.Getenv(hangs) != "" { // as long as it spins, the bubble's time stands
			}
		})
	case "a cleanup":
		t.Cleanup(wait)
	}
}

func FuzzHang(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(*testing.T, int) {
		if os.Getenv(hangs) == "a fuzz target" {
			wait()
		}
	})
}

func Example_hang() {
	if os.Getenv(hangs) == "an example" {
		wait()
	}
	// Output:
}

func TestAHangEndsWithTheNameOfItsTest(t *testing.T) {
	if err := exec.Command(os.Args[0], "-test.run=^$").Run(); errors.Is(err, syscall.ENOEXEC) {
		t.Skip("an emulator runs the test: it cannot start itself")
	}
	const cleanup = `(TestHang|a cleanup in \S+)`
	names := map[string]string{
		"a test": "TestHang", "a loop": "TestHang", "a subtest": "TestHang", "a parallel subtest": "TestHang", "a bubble": "TestHang",
		"a cleanup": cleanup, "a fuzz target": "FuzzHang", "an example": "Example_hang",
	}
	var outputs sync.Map
	var children sync.WaitGroup
	for how := range names { // all at once: they mostly wait
		children.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "Hang$|Example_hang", "-test.timeout", "4s")
			child.Env = append(os.Environ(), hangs+"="+how)
			out, err := child.CombinedOutput()
			outputs.Store(how, string(out))
			var status *exec.ExitError
			assert.ErrorAs(t, err, &status, how)
		})
	}
	children.Wait()
	for how, name := range names {
		out, _ := outputs.Load(how)
		assert.Regexp(t, `(?m)^`+name+` has not ended after 2s$`, out, how)
		assert.Contains(t, out, "goroutine ", how)
		assert.NotContains(t, out, "test timed out", how)
	}
}

// A package whose tests hang without a watchdog keeps a run waiting for go test's own timeout.
func TestEveryPackageOfTestsHasAWatchdog(t *testing.T) {
	has := map[string]bool{}
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch rel, _ := filepath.Rel(root, path); {
			case rel == "release": // a module that does not know the library
				return filepath.SkipDir
			case d.Name() == "testdata", rel != "." && strings.HasPrefix(d.Name(), "."):
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		folder := filepath.Dir(path)
		has[folder] = has[folder] || strings.Contains(string(text), "watchdog.Over(m)")
		return err
	}))
	require.NotEmpty(t, has)
	for folder, ok := range has {
		assert.True(t, ok, "%s: its TestMain runs watchdog.Over(m)", folder)
	}
}
