package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// defect is one change that breaks the library or a plugin. Its file begins with the lesson, in
// words. These lines follow:
//
//	kind: word                one of kinds; optional
//	run: package pattern      the tests that should fail; may be repeated
//	flags: -race              flags for go test; optional
//
// Then there are one or more replacements of whole lines:
//
//	-- old path/of/file.go
//	the code of the library or of a plugin, which must occur exactly once in the file
//	-- new
//	the code with the defect
type defect struct {
	name   string
	lesson string
	kind   string // key of kinds, or ""
	tests  []tests
	flags  []string
	edits  []edit
}

// kinds are those to which suites are easily blind.
var kinds = map[string]string{
	"variant":   "a verb does less, or more, where another goroutine does the work",
	"rescued":   "a sweep, a poll or a retry repairs it later",
	"pooled":    "state is left in an object that is used again",
	"batches":   "it takes more than one batch or recipient",
	"limit":     "two reach a limit, or an end, together",
	"callbacks": "a panic handler or a logger calls back or ends its goroutine",
	"negative":  "something is reported or done that must not be",
	"retained":  "what has ended stays in memory while a later item blocks",
	"shutdown":  "Shutdown, Stop or Run returns too early, or too late",

	"words":    "two goroutines share a word that is no scheduling point",
	"twice":    "the same verb is called twice at once",
	"observer": "a third party polls an outcome, or a count, and acts",
	"instant":  "the last instant of a drain",
	"life":     "a long life: many calls, many peers, many gaps",
	"extreme":  "a limit is one off",
	"odd":      "user code does what is allowed and odd",
}

// in returns the package of the defect's first edit.
func (d defect) in() string { return path.Dir(d.edits[0].file) }

// tests selects tests of one package, with a pattern for go test -run.
type tests struct{ pkg, pattern string }

type edit struct{ file, old, new string }

func readDefects(root string, wanted *regexp.Regexp) (all []defect, err error) {
	files, err := filepath.Glob(filepath.Join(root, "proof", "seeded", "defects", "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if !wanted.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d, err := parse(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, errors.New("no defects; start it in the root of the library's module")
	}
	return all, nil
}

func parse(name, text string) (defect, error) {
	head, rest, _ := strings.Cut(text, "-- old ")
	d := defect{name: name}
	for line := range strings.Lines(head) {
		if spec, ok := strings.CutPrefix(line, "run:"); ok {
			pkg, pattern, _ := strings.Cut(strings.TrimSpace(spec), " ")
			d.tests = append(d.tests, tests{pkg, strings.TrimSpace(pattern)})
		} else if kind, ok := strings.CutPrefix(line, "kind:"); ok {
			d.kind = strings.TrimSpace(kind)
			if _, known := kinds[d.kind]; !known {
				return d, fmt.Errorf("the kind %q is unknown", d.kind)
			}
		} else if flags, ok := strings.CutPrefix(line, "flags:"); ok {
			d.flags = strings.Fields(flags)
		} else {
			d.lesson += line
		}
	}
	for rest != "" {
		var part, file string
		part, rest, _ = strings.Cut(rest, "-- old ")
		file, part, _ = strings.Cut(part, "\n")
		before, after, ok := strings.Cut(part, "-- new\n")
		if !ok {
			return d, fmt.Errorf("no \"-- new\" after \"-- old %s\"", file)
		}
		d.edits = append(d.edits, edit{strings.TrimSpace(file), before, after})
	}
	switch {
	case strings.TrimSpace(d.lesson) == "":
		return d, errors.New("no lesson")
	case len(d.tests) == 0:
		return d, errors.New("no \"run:\"")
	case len(d.edits) == 0:
		return d, errors.New("no \"-- old\"")
	}
	return d, nil
}

// apply makes the replacements in the copy in dir. The caller must call undo, also after an
// error.
func (d defect) apply(dir string) (undo func(), err error) {
	saved := map[string][]byte{}
	undo = func() {
		for file, text := range saved {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				panic(err) // the copy is neither the library nor the defect
			}
		}
	}
	for _, e := range d.edits {
		file := filepath.Join(dir, filepath.FromSlash(e.file))
		text, err := os.ReadFile(file)
		if err != nil {
			return undo, err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return undo, fmt.Errorf("what it replaces occurs %d times in %s", n, e.file)
		}
		if _, again := saved[file]; !again {
			saved[file] = text
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return undo, err
		}
	}
	return undo, nil
}
