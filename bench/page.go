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
var pages = []string{frontPage, "docs/benchmarks.md"}

// frontPage has some of the figures only.
const frontPage = "README.md"

// writePages puts the figures of a run into the pages of a repository, and draws its charts. It changes nothing if a page has no
// place for figures.
func writePages(repository string, set *result.Set) error {
	written := make([][]byte, len(pages))
	for i, page := range pages {
		old, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			return err
		}
		if written[i], err = withFigures(old, set, page != frontPage); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
	}
	for _, c := range charts {
		if picture := c.draw(set); picture != nil {
			if err := os.WriteFile(filepath.Join(repository, c.file), picture, 0o644); err != nil {
				return err
			}
		}
	}
	for i, page := range pages {
		if err := os.WriteFile(filepath.Join(repository, page), written[i], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// withFigures returns a page with the figures of set, all or those of the front page.
func withFigures(old []byte, set *result.Set, all bool) ([]byte, error) {
	before, rest, begins := bytes.Cut(old, []byte(figuresBegin))
	_, after, ends := bytes.Cut(rest, []byte(figuresEnd))
	if !begins || !ends {
		return nil, fmt.Errorf("there are no lines %q and %q", figuresBegin, figuresEnd)
	}
	b := bytes.NewBuffer(bytes.Clone(before))
	b.WriteString(figuresBegin)
	writeComparison(b, set, all)
	b.WriteString(figuresEnd)
	b.Write(after)
	return b.Bytes(), nil
}
