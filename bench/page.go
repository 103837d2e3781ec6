package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayedop/purgatory/bench/result"
)

// The pages hold figures of the last full run between these lines.
const (
	figuresBegin = "<!-- figures of the last full run: written by make bench -->\n"
	figuresEnd   = "<!-- end of figures -->\n"
)

// page is a file of the repository that shows figures.
type page struct {
	path  string
	write func(io.Writer, *result.Set)
}

var pages = []page{
	{"README.md", writeComparison},
	{"docs/benchmarks.md", func(w io.Writer, set *result.Set) {
		writeMachine(w, set)
		writeComparison(w, set)
	}},
}

// writePages puts the figures of a run into the pages of a repository. It changes none if one of them has no place for
// figures.
func writePages(repository string, set *result.Set) error {
	written := make([][]byte, len(pages))
	for i, p := range pages {
		path := filepath.Join(repository, p.path)
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if written[i], err = p.with(old, set); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for i, p := range pages {
		if err := os.WriteFile(filepath.Join(repository, p.path), written[i], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// with returns the page with the figures of set.
func (p page) with(old []byte, set *result.Set) ([]byte, error) {
	before, rest, begins := bytes.Cut(old, []byte(figuresBegin))
	_, after, ends := bytes.Cut(rest, []byte(figuresEnd))
	if !begins || !ends {
		return nil, fmt.Errorf("there are no lines %q and %q", figuresBegin, figuresEnd)
	}
	var b bytes.Buffer
	p.write(&b, set)
	return bytes.Join([][]byte{before, []byte(figuresBegin), b.Bytes(), []byte(figuresEnd), after}, nil), nil
}
