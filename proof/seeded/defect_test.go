package main

import (
	"regexp"
	"testing"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

// make seeded takes minutes; that the code has moved on from under a defect shows here
// at once.
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
