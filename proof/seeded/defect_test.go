package main

import (
	"regexp"
	"testing"
)

// make seeded takes minutes; that the code has moved on from under a defect shows here
// at once.
func TestEveryDefectCanStillBePutIn(t *testing.T) {
	const root = "../.."
	all, err := readDefects(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := copyModule(root, dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		undo, err := d.apply(dir)
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		undo()
	}
}
