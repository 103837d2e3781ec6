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
	"strings"
	"sync"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root := flag.String("tree", ".", "root of the module to copy")
	pkg := flag.String("package", "internal/machine", "folder of the package to change")
	only := flag.String("only", "", "regular expression: make only changes whose printed form matches")
	tests := flag.String("tests", "", "packages to test, in this order (default: the changed one, then . and ./purgatory)")
	jobs := flag.Int("jobs", 2, "number of changes to try at the same time: one may make a test wait for a while")
	verbose := flag.Bool("v", false, "print every change and the test that noticed it")
	flag.Parse()
	if *tests == "" {
		*tests = "./" + *pkg + " . ./purgatory"
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *jobs < 1 {
		return fmt.Errorf("-jobs is %d, must be at least 1", *jobs)
	}
	all, err := mutantsOf(*root, *pkg, wanted)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied, err := tree.Copy(*root, dir)
	if err != nil {
		return err
	}
	found := len(all)
	all, suites, err := build(ctx, copied, all, strings.Fields(*tests))
	if err != nil {
		return err
	}
	if err := green(ctx, suites); err != nil {
		return err
	}
	tally := map[status]int{}
	for v := range verdicts(ctx, *jobs, all, suites) {
		tally[v.status]++
		if *verbose || v.status == survived {
			fmt.Printf("%-9s %s %s\n", v.status, v.mutant, v.detail)
		}
	}
	fmt.Printf("mutate: %d changes to %s, %d noticed, %d survived (and %d did not compile)\n",
		len(all), *pkg, tally[noticed], tally[survived], found-len(all))
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
	if len(all) == 0 {
		return nil, errors.New("no changes; start it in the root of the library's module")
	}
	return all, nil
}

// verdicts judges all changes and returns the verdicts in the order in which they are known.
func verdicts(ctx context.Context, jobs int, all []mutant, suites []suite) <-chan verdict {
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
