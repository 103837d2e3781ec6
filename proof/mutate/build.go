package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

// switches is the source of the package that tells the changed code which mutant is on, and
// notes which of them the code has come to.
const switches = `package mutant

import (
	"os"
	"strconv"
	"syscall"
)

var on, _ = strconv.Atoi(os.Getenv("MUTANT"))

// reached is a file in memory: what is noted there outlasts a process that is killed.
var reached []byte

func init() {
	file, err := os.OpenFile(os.Getenv("MUTANTS_REACHED"), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		reached, _ = syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
}

func On(n int) bool {
	if reached != nil {
		reached[n] = 1
	}
	return n == on
}

func Pick[T any](n int, changed, same T) T {
	if On(n) {
		return changed
	}
	return same
}
`

const imported = `; import "github.com/delayedop/purgatory/internal/mutant"`

// build puts all changes into the copy and compiles the tests of the changed packages and of others. An environment
// variable switches one change on. Changes that do not compile are left out; build returns
// the others.
func build(ctx context.Context, copied tree.Tree, all []mutant, packages, tests []string, patience time.Duration) ([]mutant, []*suite, error) {
	dir := filepath.Join(copied.Dir, "internal", "mutant")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "mutant.go"), []byte(switches), 0o600)); err != nil {
		return nil, nil, err
	}
	sources := map[string][]byte{}
	for _, m := range all {
		if sources[m.file] == nil {
			text, err := os.ReadFile(filepath.Join(copied.Dir, m.file))
			if err != nil {
				return nil, nil, err
			}
			sources[m.file] = text
		}
	}
	args := []string{"build", "-gcflags=-e"}
	for _, pkg := range packages {
		args = append(args, "./"+pkg)
	}
	for {
		for name, source := range sources {
			if err := os.WriteFile(filepath.Join(copied.Dir, name), insertAll(all, name, source), 0o600); err != nil {
				return nil, nil, err
			}
		}
		out, err := copied.Go(ctx, args...)
		if err == nil {
			break
		}
		broken, culprits := errorsIn(out)
		left := slices.Clone(all)
		for i := len(all) - 1; i >= 0; i-- {
			if culprits[i+1] || broken[fmt.Sprintf("%s:%d", all[i].file, all[i].line)] {
				left = slices.Delete(left, i, i+1)
			}
		}
		if len(left) == len(all) {
			return nil, nil, fmt.Errorf("%w\n%s", err, out)
		}
		all = left
	}
	var suites []*suite
	seen := map[string]bool{}
	for i, pkg := range slices.Concat(tests, packages) {
		pkg = filepath.Clean(pkg)
		if seen[pkg] {
			continue
		}
		seen[pkg] = true
		s := newSuite(filepath.Join(copied.Dir, fmt.Sprintf("%d.test", i)), copied.Dir, pkg, len(all)+1, patience)
		s.ofAll = i < len(tests)
		if out, err := copied.Go(ctx, "test", "-c", "-vet=off", "-o", s.binary, "./"+pkg); err != nil {
			return nil, nil, fmt.Errorf("%w\n%s", err, out)
		}
		if _, err := os.Stat(s.binary); err == nil { // not so if the package has no tests
			suites = append(suites, s)
		}
	}
	return all, suites, nil
}

var (
	position = regexp.MustCompile(`^(?:\./)?(\S+\.go:\d+):`)
	culprit  = regexp.MustCompile(`mutant\.Pick\((\d+),`)
)

// errorsIn returns which changes do not compile: the numbers of those that the compiler's
// errors quote, and for errors that quote none the positions, as in "file.go:12".
func errorsIn(out string) (broken map[string]bool, culprits map[int]bool) {
	broken, culprits = map[string]bool{}, map[int]bool{}
	for line := range strings.Lines(out) {
		if m := culprit.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			culprits[n] = true
		} else if m := position.FindStringSubmatch(line); m != nil {
			broken[m[1]] = true
		}
	}
	return broken, culprits
}

// insertAll returns source with the changes of all that belong to the file name. The number
// of a change is its index in all plus 1, because 0 means that no change is on.
func insertAll(all []mutant, name string, source []byte) []byte {
	type insertion struct {
		at, closing, width int
		text               string
	}
	var some []insertion
	for i, m := range all {
		if m.file != name {
			continue
		}
		width := m.to - m.from
		before := strings.ReplaceAll(m.before, "#", strconv.Itoa(i+1))
		some = append(some, insertion{m.from, 1, -width, before}, insertion{m.to, 0, width, m.after})
	}
	if len(some) == 0 {
		return source
	}
	// At the same offset, changes end before others begin. Of two changes that begin there,
	// the longer one begins first; of two that end there, it ends last.
	slices.SortStableFunc(some, func(a, b insertion) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.closing, b.closing), cmp.Compare(a.width, b.width))
	})
	pkg := bytes.Index(source, []byte("\npackage ")) + 1
	end := pkg + bytes.IndexByte(source[pkg:], '\n')
	out := slices.Concat(source[:end], []byte(imported))
	done := end
	for _, ins := range some {
		out = append(append(out, source[done:ins.at]...), ins.text...)
		done = ins.at
	}
	return append(out, source[done:]...)
}
