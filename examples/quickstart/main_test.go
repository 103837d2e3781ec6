package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func Example() {
	main()
	// Output:
	// replicated, error: <nil>
}

// The README's Go code is copied from these files, so it compiles and the tests run it.
func TestReadmeShowsTheseFiles(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	files := []string{"main.go", "operation_test.go", "items_test.go"}
	require.Len(t, blocks, len(files))
	for i, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, outdented(string(source)), outdented(blocks[i][1]), file)
		if file == "main.go" {
			assert.True(t, strings.HasPrefix(blocks[i][1], "package main"), "the program is whole from its first line")
			assert.True(t, strings.HasSuffix(string(source), blocks[i][1]), "to its last")
		}
	}
}

// outdented returns code without the tabs with which its lines begin.
func outdented(code string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "") }
