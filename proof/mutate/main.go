// Command mutate is a mutation tester: it makes one change at a time in a copy of a package,
// runs the tests, and prints the changes after which all of them still pass.
//
//	go run ./proof/mutate -package watchers
//
// For each such survivor, either a test is missing or the change does not change what the
// package does. README.md explains the survivors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

const core = "timer operation watchers purgatory reaper future watermark " +
	"internal/bounded internal/entry internal/guard internal/identity internal/machine internal/stats internal/workers"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var t tester
	packages := flag.String("package", core, "folders of the packages to change, one after the other")
	only := flag.String("only", "", "regular expression: make only changes whose printed form matches")
	tests := flag.String("tests", "./watchers . ./purgatory", "packages to test after the changed one, in this order")
	flag.StringVar(&t.root, "tree", ".", "root of the module to copy")
	flag.IntVar(&t.jobs, "jobs", 2, "number of changes to try at the same time: one may make a test wait for a while")
	flag.BoolVar(&t.verbose, "v", false, "print every change and the test that noticed it")
	flag.Parse()
	var err error
	if t.wanted, err = regexp.Compile(*only); err != nil {
		return err
	}
	if t.jobs < 1 {
		return fmt.Errorf("-jobs is %d, must be at least 1", t.jobs)
	}
	for _, pkg := range strings.Fields(*packages) {
		suites := slices.DeleteFunc(strings.Fields(*tests), func(other string) bool { return other == "./"+pkg })
		if err := t.test(ctx, pkg, append([]string{"./" + pkg}, suites...)); err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
	}
	return nil
}

// tester is what the flags say.
type tester struct {
	root    string
	wanted  *regexp.Regexp
	jobs    int
	verbose bool
}

// test makes the changes to one package, and prints the verdicts.
func (t tester) test(ctx context.Context, pkg string, tests []string) error {
	all, err := mutantsOf(t.root, pkg, t.wanted)
	if err != nil || len(all) == 0 {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied, err := tree.Copy(t.root, dir)
	if err != nil {
		return err
	}
	found := len(all)
	all, suites, err := build(ctx, copied, all, tests)
	if err != nil {
		return err
	}
	tally := map[status]int{}
	for v := range verdicts(ctx, t.jobs, all, suites) {
		if v.err != nil {
			return v.err
		}
		tally[v.status]++
		if t.verbose || v.status != noticed {
			fmt.Printf("%-9s %s %s\n", v.status, v.mutant, v.detail)
		}
	}
	fmt.Printf("mutate: %d changes to %s, %d noticed, %d of these by a hang, %d survived, %d of these unreached (%d did not compile)\n", len(all), pkg,
		tally[noticed]+tally[hung], tally[hung], tally[survived]+tally[unreached], tally[unreached], found-len(all))
	return ctx.Err()
}

// mutantsOf returns the changes to a package that match wanted.
func mutantsOf(root, pkg string, wanted *regexp.Regexp) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		some, err := mutants(filepath.Join(pkg, filepath.Base(path)), source)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			if wanted.MatchString(m.String()) {
				all = append(all, m)
			}
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no such package; start it in the root of the library's module")
	}
	return all, nil
}

// verdicts judges all changes and returns the verdicts in the order in which they are known.
func verdicts(ctx context.Context, jobs int, all []mutant, suites []*suite) <-chan verdict {
	todo, done := make(chan int), make(chan verdict)
	go func() {
		defer close(todo)
		for i := range all {
			select {
			case todo <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var group sync.WaitGroup
	for range jobs {
		group.Go(func() {
			for i := range todo {
				if v := judge(ctx, all[i], i+1, suites); ctx.Err() == nil {
					done <- v
				}
			}
		})
	}
	go func() {
		group.Wait()
		close(done)
	}()
	return done
}
