package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

// The test finds defects whose code has changed in the library. It takes seconds, and
// make seeded takes minutes.
func TestEveryDefectCanStillBePutIn(t *testing.T) {
	const root = "../.."
	all, err := readDefects(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := tree.Copy(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		undo, err := d.apply(copied.Dir)
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		undo()
	}
}

// A pattern that matches no test makes a defect look as if it survived.
func TestEveryPatternNamesTests(t *testing.T) {
	const root = "../.."
	all, err := readDefects(root, regexp.MustCompile(""))
	require.NoError(t, err)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	names := map[string][]string{}
	for _, d := range all {
		for _, run := range d.tests {
			if names[run.pkg] == nil {
				files, err := filepath.Glob(filepath.Join(root, run.pkg, "*_test.go"))
				require.NoError(t, err)
				for _, file := range files {
					text, err := os.ReadFile(file)
					require.NoError(t, err)
					for _, m := range declared.FindAllSubmatch(text, -1) {
						names[run.pkg] = append(names[run.pkg], string(m[1]))
					}
				}
			}
			for part := range strings.SplitSeq(run.pattern, "|") {
				top, _, _ := strings.Cut(part, "/")
				matches := regexp.MustCompile(top).MatchString
				assert.True(t, slices.ContainsFunc(names[run.pkg], matches), "%s: no test of %s is named %q", d.name, run.pkg, part)
			}
		}
	}
}

func TestThePartsAreAllDefects(t *testing.T) {
	all := make([]defect, 10)
	for i := range all {
		all[i].name = fmt.Sprint(i)
	}
	seen := map[string]int{}
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		some, err := partOf(all, part)
		require.NoError(t, err)
		for _, d := range some {
			seen[d.name]++
		}
	}
	assert.Len(t, seen, len(all))
	for name, n := range seen {
		assert.Equal(t, 1, n, name)
	}
	for _, bad := range []string{"", "0/3", "4/3", "x"} {
		_, err := partOf(all, bad)
		assert.ErrorContains(t, err, fmt.Sprintf("%q", bad))
	}
}
