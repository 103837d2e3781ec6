// Command size counts what a reader of the core has to read: every package of this module that the package purgatory is built
// of, wherever its code lies. It prints a line for each package, and at the end the core with its tests:
//
//	go run ./proof/size
//
// A line counts if some of it is code: blank lines and those of comments do not, in either form. Tokens are those of
// go/scanner, with the semicolons that end lines. Words are those of comments, without the markers. Tests are all files of
// tests in the packages' folders and below, with the contract's, purgatory_test.go; of these every line counts. Names are what
// a package exports: types, functions, methods of exported types, constants and variables, not fields.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

const (
	module = "github.com/delayedop/purgatory"
	core   = module + "/purgatory" // the package that users import
)

func main() {
	if err := run(os.Stdout, "."); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// run prints the table of the module whose root is folder.
func run(out io.Writer, folder string) error {
	packages, err := list(folder)
	if err != nil {
		return err
	}
	const row = "%-26s %7v %7v %7v %7v\n"
	fmt.Fprintf(out, row, "", "lines", "tokens", "words", "names")
	var all size
	own := 0 // names of the package that users import
	folders := map[string]bool{}
	for _, p := range packages {
		var s size
		for _, file := range p.files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := s.add(file, text); err != nil {
				return err
			}
		}
		name := strings.TrimPrefix(p.path, module+"/")
		if strings.HasPrefix(name, "internal/") { // whose names are nobody's
			s.names = 0
		}
		fmt.Fprintf(out, row, name, s.lines, s.tokens, s.words, s.names)
		all.plus(s)
		if p.path == core {
			own = s.names
		}
		folders[p.folder] = true
	}
	tests, err := testLines(folder, folders)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, row, "the core", all.lines, all.tokens, all.words, fmt.Sprint(own, "+", all.names-own))
	fmt.Fprintf(out, "%-26s %7d\n", "its tests", tests)
	return nil
}

// source is a package and the files that it is built of.
type source struct {
	path, folder string
	files        []string
}

// list returns the core's packages.
func list(folder string) (all []source, err error) {
	const form = `{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{"\t"}}{{.Dir}}{{range .GoFiles}}{{"\t"}}{{.}}{{end}}{{range .IgnoredGoFiles}}{{"\t"}}{{.}}{{end}}{{"\n"}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", form, core)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps %s: %w", core, err)
	}
	for line := range strings.Lines(string(bytes.TrimSpace(text))) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) < 2 {
			continue
		}
		p := source{path: fields[0], folder: fields[1]}
		for _, name := range fields[2:] {
			if !strings.HasSuffix(name, "_test.go") { // files that tags leave out are read, too, and tests are not
				p.files = append(p.files, fields[1]+string(os.PathSeparator)+name)
			}
		}
		all = append(all, p)
	}
	return all, nil
}
