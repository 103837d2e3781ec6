package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is the environment variable with the name of the file to which the changed library adds
// a line for each check that was forgotten.
const report = "FORGOTTEN_REPORT"

// New is where the changed library has every purgatory tell a judge, whatever options the example uses.
const (
	file     = "purgatory/purgatory.go"
	function = "func New[K comparable](name string, opts ...Option) (*Purgatory[K], error) {"
	code     = "opts = append([]Option{WithHook(judgeOf(name))}, opts...);"
)

const reporter = `package purgatory

import (
	"fmt"
	"os"

	"github.com/delayedop/purgatory/internal/purgatorytest/forgotten"
	"github.com/delayedop/purgatory/internal/testhook"
)

func judgeOf(purgatory string) *testhook.Hook {
	return forgotten.New(func(text string) {
		f, err := os.OpenFile(os.Getenv("` + report + `"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		fmt.Fprintf(f, "purgatory %s: %s\n", purgatory, text)
	}).Hook()
}
`

// library returns the contents of the changed files, by their path.
func library(root string) (files map[string][]byte, err error) {
	path := filepath.Join(root, filepath.FromSlash(file))
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	at := strings.Index(string(source), function+"\n")
	if at < 0 {
		return nil, fmt.Errorf("%s has no %s", file, function)
	}
	at += len(function)
	return map[string][]byte{
		path: slices.Concat(source[:at], []byte(code), source[at:]),
		filepath.Join(root, "purgatory", "reportforgotten.go"): []byte(reporter),
	}, nil
}
