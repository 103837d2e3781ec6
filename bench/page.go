package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/target"
)

// The page on benchmarks holds the figures of the last complete run between these lines.
const (
	figuresBegin = "<!-- figures of the last complete run: written by make bench-complete -->\n"
	figuresEnd   = "<!-- end of figures -->\n"
)

// writePage puts the figures of a run into the page.
func writePage(path string, set *result.Set) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(page, []byte(figuresBegin))
	_, after, ends := bytes.Cut(rest, []byte(figuresEnd))
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q", path, figuresBegin, figuresEnd)
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(figuresBegin)
	if err := target.WriteMarkdown(&b, set); err != nil {
		return err
	}
	b.WriteString(figuresEnd)
	b.Write(after)
	return os.WriteFile(path, b.Bytes(), 0o644)
}
