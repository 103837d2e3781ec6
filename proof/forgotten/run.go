package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

// runner runs the examples' tests on the changed library, and without a call. It changes no
// file: the go command reads the changed ones in the place of the others. It is not safe for
// concurrent use.
type runner struct {
	root     string            // of the repository, absolute
	dir      string            // for its own files
	library  map[string][]byte // the changed files, by their path
	patience time.Duration     // for the tests of one package without a call
	build    []string          // flags with which the tests are built
	flags    []string          // for the tests
}

// seen is what became of the tests of one package.
type seen struct {
	folder string
	check  string // the first forgotten check that was reported; empty: none
	failed string // what failed before that; empty: nothing
}

// folders returns the folders whose tests may run the code in folder, relative to the root: folder
// itself, and those of the same example that depend on it.
func (r *runner) folders(ctx context.Context, folder string) (all []string, err error) {
	module := r.module(folder)
	example := strings.TrimPrefix(folder, module+"/")
	if module == "." {
		example = strings.Join(strings.SplitN(folder, "/", 3)[:2], "/") // examples/name
	} else {
		example, _, _ = strings.Cut(example, "/")
	}
	const format = `{{.Dir}} {{len .TestGoFiles}}{{len .XTestGoFiles}} {{.ImportPath}} {{join .Deps " "}}`
	out, err := command(ctx, filepath.Join(r.root, module), "go", "list", "-f", format, "./"+example+"/...").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	packages := map[string][]string{} // what go list says, by folder
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		dir, err := filepath.Rel(r.root, words[0])
		if err != nil {
			return nil, err
		}
		packages[filepath.ToSlash(dir)] = words[1:]
	}
	for dir, words := range packages {
		if words[0] != "00" && slices.Contains(words[1:], packages[folder][1]) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	if own := slices.Index(all, folder); own > 0 { // it comes first
		all = slices.Insert(slices.Delete(all, own, own+1), 0, folder)
	}
	return all, nil
}

// module returns the folder of the module that folder belongs to, relative to the root.
func (r *runner) module(folder string) string {
	for at := folder; at != "."; at = filepath.ToSlash(filepath.Dir(at)) {
		if _, err := os.Stat(filepath.Join(r.root, at, "go.mod")); err == nil {
			return at
		}
	}
	return "."
}

// test runs the tests of the package in folder without the calls. If a forgotten check is
// reported, it ends them at once.
func (r *runner) test(ctx context.Context, folder string, patience time.Duration, without ...call) (s seen, err error) {
	s.folder = folder
	overlay, err := r.overlay(without)
	if err != nil {
		return s, err
	}
	binary, dir := filepath.Join(r.dir, "tests"), filepath.Join(r.root, folder)
	build := slices.Concat([]string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", binary}, r.build, []string{"."})
	if out, err := command(ctx, dir, "go", build...).CombinedOutput(); err != nil {
		return s, fmt.Errorf("%s: %w\n%s", folder, err, out)
	}
	reported := filepath.Join(r.dir, "report")
	if err := os.WriteFile(reported, nil, 0o600); err != nil {
		return s, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	tests := command(running, dir, binary, append(r.flags, "-test.timeout", patience.String())...)
	tests.Env = append(os.Environ(), report+"="+reported)
	var out bytes.Buffer
	tests.Stdout, tests.Stderr, tests.WaitDelay = &out, &out, time.Second // those that the tests have started may keep out open
	if err := tests.Start(); err != nil {
		return s, err
	}
	go func() {
		for running.Err() == nil && first(reported) == "" {
			time.Sleep(20 * time.Millisecond)
		}
		stop()
	}()
	err = tests.Wait()
	if s.check = first(reported); err != nil {
		s.failed, _ = tree.FailedBy(out.String())
	}
	return s, ctx.Err()
}

// first returns the first line of a file.
func first(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		panic(err) // it is the runner's own
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// overlay writes the file that tells the go command which files to read in the place of others.
func (r *runner) overlay(without []call) (name string, err error) {
	replace := map[string]string{}
	add := func(path string, text []byte) error {
		at := filepath.Join(r.dir, fmt.Sprintf("%d.go", len(replace)))
		replace[path] = at
		return os.WriteFile(at, text, 0o600)
	}
	for path, text := range r.library {
		if err := add(path, text); err != nil {
			return "", err
		}
	}
	for _, c := range without {
		path := filepath.Join(r.root, filepath.FromSlash(c.file))
		text, err := os.ReadFile(path)
		if err == nil {
			err = add(path, c.takenOut(text))
		}
		if err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name = filepath.Join(r.dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	return c
}
