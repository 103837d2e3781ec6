package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// quick is how long a test may take to be run together with others. A test that takes longer
// has a process of its own, so that it runs only if the quicker ones have noticed nothing.
const quick = 50 * time.Millisecond

// suite is the tests of one package, compiled.
type suite struct {
	binary, dir string
	pkg         string
	ofAll       bool // the tests are for the changes to every package, not only to pkg
	size        int  // numbers of changes are less
	patience    time.Duration

	profile sync.Mutex // held while the tests are run without a change, which needs to happen once
	tests   []test     // the quickest first
	last    []string   // tests that have hung with a change: they run alone, after the others
}

// test is a test as it runs without a change.
type test struct {
	name    string
	took    time.Duration
	reached []byte // for the number of each change, not 0 if the test comes to it
}

func newSuite(binary, root, pkg string, size int, patience time.Duration) *suite {
	return &suite{binary: binary, dir: filepath.Join(root, pkg), pkg: pkg, size: size, patience: patience}
}

// batches returns the tests that come to a change, in the order in which to run them: those
// of a batch in one process. The first call runs every test without a change. A test that fails then,
// twice, is left out, because one that fails in any case notices nothing.
func (s *suite) batches(ctx context.Context, change int) (all [][]test, err error) {
	s.profile.Lock()
	defer s.profile.Unlock()
	if s.tests == nil {
		if s.tests, err = s.profiled(ctx); err != nil {
			return nil, err
		}
	}
	var together []test
	var last [][]test
	for _, t := range s.tests {
		switch {
		case t.reached[change] == 0:
		case slices.Contains(s.last, t.name):
			last = append(last, []test{t})
		case t.took < quick:
			together = append(together, t)
		default:
			all = append(all, []test{t})
		}
	}
	if together != nil {
		all = slices.Insert(all, 0, together)
	}
	return append(all, last...), nil
}

// putLast has a test, which has hung with a change, run after the others from now on.
func (s *suite) putLast(name string) {
	s.profile.Lock()
	defer s.profile.Unlock()
	if !slices.Contains(s.last, name) {
		s.last = append(s.last, name)
	}
}

// profiled runs each test alone, without a change.
func (s *suite) profiled(ctx context.Context) (all []test, err error) {
	all = []test{}
	names, err := s.output(ctx, "-test.list=^(Test|Example|Fuzz)")
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, names)
	}
	file := s.binary + ".reached"
	defer os.Remove(file)
	for _, name := range strings.Fields(names) {
		if err := os.WriteFile(file, make([]byte, s.size), 0o600); err != nil {
			return nil, err
		}
		t := test{name: name}
		out, err := "", error(nil)
		for range 2 {
			start := time.Now()
			out, err = s.run(ctx, []test{t}, 5*time.Minute, "MUTANTS_REACHED="+file)
			if t.took = time.Since(start); err == nil {
				break
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutate: left out: without a change, %s in %s fails: %v\n%s", name, s.dir, err, out)
			continue
		}
		if t.reached, err = os.ReadFile(file); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b test) int { return int(a.took - b.took) })
	return all, nil
}

// try runs some tests with a change switched on.
func (s *suite) try(ctx context.Context, some []test, change int) (string, error) {
	timeout := s.patience // a change may make a test wait for ever
	for _, t := range some {
		timeout += 5 * t.took
	}
	return s.run(ctx, some, timeout, "MUTANT="+strconv.Itoa(change))
}

func (s *suite) run(ctx context.Context, some []test, timeout time.Duration, env string) (string, error) {
	var names []string
	for _, t := range some {
		names = append(names, regexp.QuoteMeta(t.name))
	}
	limit := 2 * timeout // package watchdog ends a test that takes half of it
	return s.output(ctx, "-test.failfast", "-test.timeout="+limit.String(), "-test.run=^("+strings.Join(names, "|")+")$", env)
}

// output runs the tests with flags, of which the last may be a variable of the environment.
func (s *suite) output(ctx context.Context, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.binary)
	cmd.Dir = s.dir
	cmd.Env = os.Environ()
	for _, f := range flags {
		if strings.HasPrefix(f, "-") {
			cmd.Args = append(cmd.Args, f)
		} else {
			cmd.Env = append(cmd.Env, f)
		}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
