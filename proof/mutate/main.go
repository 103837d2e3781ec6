// Command mutate is a mutation tester: it makes one change at a time in a copy of a package,
// runs the tests, and prints the changes after which all of them still pass.
//
//	go run ./proof/mutate -package watchers
//	go run ./proof/mutate -since main
//
// Without -package and -since it goes through the whole core, which takes some hours, and ends with a table of the packages.
//
// For each such survivor, either a test is missing or the change does not change what the
// package does. README.md explains the survivors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	gobuild "go/build"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

const core = "timer operation watchers purgatory reaper future watermark queue signals " +
	"internal/bounded internal/entry internal/guard internal/identity internal/logging internal/machine internal/observe " +
	"internal/purgatorytest/forgotten internal/stats internal/workers"

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
	packages := flag.String("package", core, "folders of the packages to change")
	since := flag.String("since", "", "git revision: change only files that differ from it, such as main before a merge")
	only := flag.String("only", "", "regular expression: make only changes whose printed form matches")
	tests := flag.String("tests", "internal/machine timer watchers watermark purgatory . purgatory/purgatorytest", "packages whose tests run after those of the changed one, in this order, if they come to the change")
	flag.IntVar(&t.sample, "sample", 0, "make so many changes to each package, which -seed draws; 0: all")
	flag.Uint64Var(&t.seed, "seed", 1, "see -sample")
	flag.StringVar(&t.root, "tree", ".", "root of the module to copy")
	flag.IntVar(&t.jobs, "jobs", 2, "number of changes to try at the same time: one may make a test wait for a while")
	flag.DurationVar(&t.patience, "patience", 5*time.Second, "how long tests may take beyond five times what they take without a change: then they hang; those that say so themselves do after up to 10s")
	flag.BoolVar(&t.verbose, "v", false, "print every change and the test that noticed it")
	flag.Parse()
	var err error
	if t.wanted, err = regexp.Compile(*only); err != nil {
		return err
	}
	if t.jobs < 1 {
		return fmt.Errorf("-jobs is %d, must be at least 1", t.jobs)
	}
	if t.sample < 0 {
		return fmt.Errorf("-sample is %d, must be at least 0", t.sample)
	}
	folders := strings.Fields(*packages)
	if *since != "" {
		if t.files, err = changedSince(ctx, t.root, *since); err != nil {
			return err
		}
		folders = slices.DeleteFunc(folders, func(pkg string) bool {
			return !slices.ContainsFunc(t.files, func(file string) bool { return filepath.Dir(file) == pkg })
		})
		if len(folders) == 0 {
			fmt.Printf("mutate: no file of the packages differs from %s\n", *since)
			return nil
		}
	}
	return t.test(ctx, folders, strings.Fields(*tests))
}

// changedSince returns the files under root that differ from a revision, as paths from root, those that git does not know yet
// included.
func changedSince(ctx context.Context, root, revision string) (files []string, err error) {
	for _, args := range [][]string{{"diff", "--name-only", "--relative", revision, "--", "."}, {"ls-files", "--others", "--exclude-standard"}} {
		git := exec.CommandContext(ctx, "git", args...)
		git.Dir, git.Stderr = root, os.Stderr
		out, err := git.Output()
		if err != nil {
			return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		for line := range strings.Lines(string(out)) {
			files = append(files, filepath.FromSlash(strings.TrimSpace(line)))
		}
	}
	return files, nil
}

// row is what has become of the changes to a package. Those that were noticed by a hang count as noticed, too, and those
// that no test has come to as survived.
type row struct {
	pkg                                         string
	changes, noticed, hung, survived, unreached int
}

const heading = "package                          changes noticed    hung survived unreached survived"

func (r row) String() string {
	return fmt.Sprintf("%-32s %7d %7d %7d %8d %9d %6.1f %%", r.pkg, r.changes, r.noticed, r.hung, r.survived, r.unreached,
		100*float64(r.survived)/float64(max(r.changes, 1)))
}

// count counts a verdict.
func (r *row) count(s status) {
	r.changes++
	switch s {
	case hung:
		r.hung++
		r.noticed++
	case noticed:
		r.noticed++
	case unreached:
		r.unreached++
		r.survived++
	case survived:
		r.survived++
	}
}

// tester is what the flags say.
type tester struct {
	root     string
	wanted   *regexp.Regexp
	files    []string // to change; nil: all
	sample   int      // of each package; 0: all
	seed     uint64
	jobs     int
	patience time.Duration
	verbose  bool
}

// test makes the changes to packages, prints the verdicts, and at the end what they add up to.
func (t tester) test(ctx context.Context, packages, tests []string) error {
	var all []mutant
	for _, pkg := range packages {
		some, err := t.mutantsOf(pkg)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
		all = append(all, t.drawn(pkg, some)...)
	}
	if len(all) == 0 {
		return errors.New("nothing to change")
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
	all, suites, err := build(ctx, copied, all, packages, tests, t.patience)
	if err != nil {
		return err
	}
	if len(all) < found {
		fmt.Printf("mutate: %d changes do not compile\n", found-len(all))
	}
	rows, sum := map[string]*row{}, row{pkg: "all"}
	for _, pkg := range packages {
		rows[pkg] = &row{pkg: pkg}
	}
	judging, cancel := context.WithCancel(ctx)
	defer cancel()
	for v := range verdicts(judging, t.jobs, all, suites) {
		if ctx.Err() != nil { // tests were ended halfway, and have noticed nothing
			break
		}
		if v.err != nil {
			return v.err
		}
		rows[v.pkg()].count(v.status)
		sum.count(v.status)
		if t.verbose || v.status != noticed {
			fmt.Printf("%-9s %s %s\n", v.status, v.mutant, v.detail)
		}
	}
	fmt.Println(heading)
	for _, pkg := range packages {
		fmt.Println(rows[pkg])
	}
	fmt.Println(sum)
	return ctx.Err()
}

// drawn returns the sample of the changes to a package, in their order. Other packages do not change it.
func (t tester) drawn(pkg string, all []mutant) []mutant {
	if t.sample == 0 || t.sample >= len(all) {
		return all
	}
	name := fnv.New64a()
	name.Write([]byte(pkg))
	chosen := rand.New(rand.NewPCG(t.seed, name.Sum64())).Perm(len(all))[:t.sample]
	slices.Sort(chosen)
	some := make([]mutant, t.sample)
	for i, at := range chosen {
		some[i] = all[at]
	}
	return some
}

// mutantsOf returns the changes to a package that are wanted.
func (t tester) mutantsOf(pkg string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(t.root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		name := filepath.Join(pkg, filepath.Base(path))
		if strings.HasSuffix(path, "_test.go") || t.files != nil && !slices.Contains(t.files, name) {
			continue
		}
		if built, err := gobuild.Default.MatchFile(filepath.Split(path)); err != nil || !built { // it is for another build
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		some, err := mutants(name, source)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			if t.wanted.MatchString(m.String()) {
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
				select {
				case done <- judge(ctx, all[i], i+1, suites):
				case <-ctx.Done():
					return
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
