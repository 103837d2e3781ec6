package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/delayedop/purgatory/bench/result"
)

// The pages hold figures of the last full run between these lines.
const (
	figuresBegin = "<!-- figures of the last full run: written by make bench -->\n"
	figuresEnd   = "<!-- end of figures -->\n"
)

// pages are the files of the repository that show figures.
var pages = []string{"README.md", "docs/benchmarks.md"}

// writePages puts the figures of a run into the pages of a repository. It changes none if one of them has no place for
// figures.
func writePages(repository string, set *result.Set) error {
	written := make([][]byte, len(pages))
	for i, page := range pages {
		old, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			return err
		}
		if written[i], err = withFigures(old, set); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
	}
	for i, page := range pages {
		if err := os.WriteFile(filepath.Join(repository, page), written[i], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// withFigures returns a page with the figures of set.
func withFigures(old []byte, set *result.Set) ([]byte, error) {
	before, rest, begins := bytes.Cut(old, []byte(figuresBegin))
	_, after, ends := bytes.Cut(rest, []byte(figuresEnd))
	if !begins || !ends {
		return nil, fmt.Errorf("there are no lines %q and %q", figuresBegin, figuresEnd)
	}
	b := bytes.NewBuffer(bytes.Clone(before))
	b.WriteString(figuresBegin)
	writeComparison(b, set)
	b.WriteString(figuresEnd)
	b.Write(after)
	return b.Bytes(), nil
}
