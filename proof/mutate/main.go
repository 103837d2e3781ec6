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
	pkg := flag.String("package", "operation", "folder whose code is changed")
	only := flag.String("only", "", "regular expression: changes, as they are printed, that do not match are left out")
	tests := flag.String("tests", "", "packages tested, in this order (default: itself, then . and ./purgatory)")
	jobs := flag.Int("jobs", 2, "how many changes to try at a time: one may make a test wait for a while")
	verbose := flag.Bool("v", false, "say of every change what noticed it")
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

// mutantsOf returns the wanted changes to a package.
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

// verdicts returns what becomes of all, in the order in which that is known.
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
