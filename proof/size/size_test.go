package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { os.Exit(watchdog.Over(m).Run()) }

// Each line of example that is code says how many tokens it has, with the semicolon that ends it. ' stands for a back quote.
const example = `// Package p has six words.
/* And these are
seven more. */
package p // 3

import "fmt" /* 3 */

type T[K comparable] struct { // 7
	Field, hidden int // 5

} // 2

func (*T[K]) M() { fmt.Print("/* no comment */") } // 21

const text = 'a

// no comment' // 5

func (hidden) Unseen() {} // 10

type hidden int; type I interface{ Method() } // 13

const A, b = 1, 2 // 9
var C int // 4
`

func TestWhatIsCounted(t *testing.T) {
	tokens, numbers := 0, regexp.MustCompile(`/[/*] (\d+)`).FindAllStringSubmatch(example, -1)
	for _, n := range numbers {
		count, err := strconv.Atoi(n[1])
		require.NoError(t, err)
		tokens += count
	}
	var s size
	require.NoError(t, s.add("p.go", []byte(strings.ReplaceAll(example, "'", "`"))))
	assert.Equal(t, tokens, s.tokens)
	assert.Equal(t, len(numbers)+2, s.lines, "and two more of the text, which is no comment")
	assert.Equal(t, 5+5+len(numbers), s.words)
	assert.Equal(t, 6, s.names, "T, M, I, Method, A, C: no fields, and nothing of a hidden type")
}

func TestAFileThatIsNoGoIsAnError(t *testing.T) {
	var s size
	require.Error(t, s.add("p.go", []byte("package p\n\nfunc {")))
}

// The table of this module has every package that the core is built of, and adds up.
func TestTheTableAddsUp(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out, "../.."))
	sum, whole := 0, 0
	seen := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^(\S.*?) +(\d+) `).FindAllStringSubmatch(out.String(), -1) {
		lines, err := strconv.Atoi(row[2])
		require.NoError(t, err)
		seen[row[1]] = true
		if row[1] == "the core" {
			whole = lines
		} else {
			sum += lines
		}
	}
	assert.Positive(t, whole)
	assert.Equal(t, whole, sum)
	for _, name := range []string{"purgatory", "operation", "timer", "watchers", "reaper", "internal/machine"} {
		assert.True(t, seen[name], name)
	}
	assert.Regexp(t, `(?m)^its tests +[1-9]\d+$`, out.String())
}
