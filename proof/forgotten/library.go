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

// change is a change to one function of the library: code that comes first in its body.
type change struct{ file, function, code string }

// The library reports forgotten checks in every purgatory, whatever options the example uses.
var changes = []change{
	{
		"purgatory/purgatory.go", "func New[K comparable](name string, opts ...Option) (*DelayedOperationPurgatory[K], error) {",
		"opts = append([]Option{WithForgottenChecks(0)}, opts...)",
	},
	{
		"purgatory/forgotten.go", "func (f *forgotten[K]) note(s *suspect[K]) {",
		`reportForgotten(f.p.name, keyText(s.keys[0]), s.text)`,
	},
}

const reporter = `package purgatory

import (
	"fmt"
	"os"
)

func reportForgotten(purgatory, key, operation string) {
	f, err := os.OpenFile(os.Getenv("` + report + `"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "purgatory %s, key %s, %s\n", purgatory, key, operation)
}
`

// library returns the contents of the changed files, by their path.
func library(root string) (files map[string][]byte, err error) {
	files = map[string][]byte{filepath.Join(root, "purgatory", "reportforgotten.go"): []byte(reporter)}
	for _, c := range changes {
		path := filepath.Join(root, filepath.FromSlash(c.file))
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		at := strings.Index(string(source), c.function+"\n")
		if at < 0 {
			return nil, fmt.Errorf("%s has no %s", c.file, c.function)
		}
		at += len(c.function)
		files[path] = slices.Concat(source[:at], []byte(c.code+";"), source[at:])
	}
	return files, nil
}
