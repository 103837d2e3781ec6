// Command mutate changes one thing at a time in a copy of a package, as mutation testers
// do, and says which changes no test notices:
//
//	go run ./proof/mutate -package watchers
//
// Each survivor is either a test that is missing or a change that changes nothing;
// docs/mutation.md goes through them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run() error {
	tree := flag.String("tree", ".", "root of the module to copy")
	pkg := flag.String("package", "operation", "folder whose code is changed")
	file := flag.String("file", "*.go", "its files that are changed, as a glob")
	near := flag.String("near", "./operation ./watchers", "packages tested first")
	far := flag.String("far", ".", "packages tested if these stay green")
	pattern := flag.String("run", "", "tests of -far, as a regular expression")
	flag.Parse()
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyCode(*tree, dir); err != nil {
		return err
	}
	suites := []suite{{packages: strings.Fields(*near)}, {packages: strings.Fields(*far), pattern: *pattern}}
	for _, s := range suites {
		if out, green := s.run(dir, 10*time.Minute); !green {
			return fmt.Errorf("without a change the tests fail:\n%s", out)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, *pkg, *file))
	if err != nil {
		return err
	}
	tally := map[string]int{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if err := mutateFile(dir, path, suites, tally); err != nil {
			return err
		}
	}
	total := tally[killed] + tally[survived]
	fmt.Printf("mutate: %d changes to %s, %d noticed, %d survived (and %d did not compile)\n",
		total, *pkg, tally[killed], tally[survived], tally[invalid])
	return nil
}

const (
	killed   = "noticed"
	survived = "SURVIVED"
	invalid  = "invalid"
)

func mutateFile(dir, path string, suites []suite, tally map[string]int) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all, err := mutants(path, source)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := os.WriteFile(path, m.apply(source), 0o600); err != nil {
			return err
		}
		status := judge(dir, suites)
		tally[status]++
		if status == survived {
			fmt.Printf("%-9s %s:%d: %s\n", status, rel, m.line, m.what)
		}
	}
	return os.WriteFile(path, source, 0o600)
}

func judge(dir string, suites []suite) string {
	build := exec.Command("go", "build", "./...")
	build.Dir = dir
	if build.Run() != nil {
		return invalid
	}
	for _, s := range suites {
		if _, green := s.run(dir, 40*time.Second); !green {
			return killed
		}
	}
	return survived
}

// suite is tests that are run together.
type suite struct {
	packages []string
	pattern  string
}

// run runs the suite; what takes longer than timeout is red, for a change may have
// tests wait for ever.
func (s suite) run(dir string, timeout time.Duration) (out string, green bool) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	args := append([]string{"test", "-vet=off", "-count=1", "-failfast", "-short"}, s.packages...)
	if s.pattern != "" {
		args = append(args, "-run", s.pattern)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && ctx.Err() == nil && !errors.As(err, &exit) {
		panic(err) // there is no Go
	}
	return string(text), err == nil
}

// copyCode copies the library's Go code, its test data and its module files.
func copyCode(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if rel != "." && (strings.HasPrefix(rel, ".") || rel == "proof" || rel == "examples" || err == nil) {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
}
