package main

import (
	"fmt"
	"regexp"
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
