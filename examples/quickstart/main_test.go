package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// completed at once: false <nil>
	// answered: satisfied
	// completed now: 1
}

// The code in the README is copied from these files, so it compiles and does what it says.
func TestReadmeShowsTheseFiles(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var sources string
	for _, file := range []string{"main.go", "timeout_test.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		sources += string(source)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		assert.Contains(t, sources, block[1])
	}
}
