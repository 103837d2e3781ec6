// Command seeded checks that the tests find known defects. It puts one defect at a time
// into a copy of the library and its plugins and runs the tests. If no test fails, a test is missing.
//
// Each file in defects/ describes one defect: the lesson that it stands for, the tests
// that should fail, and the code before and after. The comment on type defect describes
// the format.
//
//	go run ./proof/seeded            every defect
//	go run ./proof/seeded -only 6682 defects whose name matches
//
// Run it in the root of the library's module. It exits with status 1 if a defect
// survives, or if it is broken: the code that it replaces is not there, or its new code
// does not compile.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"time"

	"github.com/delayedop/purgatory/proof/internal/tree"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root := flag.String("tree", ".", "root of the module to copy")
	only := flag.String("only", "", "regular expression: run only defects whose name matches")
	quick := flag.Bool("quick", false, "run only the tests that a defect names; without it, run all tests if these pass")
	jobs := flag.Int("jobs", 2, "number of copies to work on at the same time: a defect may make a test wait for a while")
	part := flag.String("part", "1/1", "i/n: run only every n-th defect, from the i-th on")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *jobs < 1 {
		return fmt.Errorf("-jobs is %d, must be at least 1", *jobs)
	}
	all, err := readDefects(*root, wanted)
	if err != nil {
		return err
	}
	if all, err = partOf(all, *part); err != nil {
		return err
	}
	copies := make([]tree.Tree, *jobs)
	for i := range copies {
		dir, err := os.MkdirTemp("", "seeded")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if copies[i], err = tree.Copy(*root, dir); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := green(ctx, copies[0], all); err != nil {
		return err
	}
	fmt.Printf("without a defect every named test passes (%d s)\n", seconds(began))
	tally := map[status]int{}
	var table table
	hangs := 0
	for v := range verdicts(ctx, copies, all, !*quick) {
		tally[v.status]++
		how := ""
		switch {
		case v.hang:
			hangs++
			how = "HANG, "
		case v.status == caught:
			how = "assertion, "
		}
		table.add(v)
		fmt.Printf("%-9s %-48s %s (%s%d s)\n", v.status, v.defect.name, v.detail, how, v.seconds)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Print(table.String())
	fmt.Printf("seeded: %d defects, %d caught (%d by a hang), %d survived, %d broken, %d s\n",
		len(all), tally[caught], hangs, tally[survived], tally[broken], seconds(began))
	if tally[caught] != len(all) {
		return fmt.Errorf("%d of %d defects were not caught", len(all)-tally[caught], len(all))
	}
	return nil
}

// partOf returns every n-th defect, from the i-th on, where part is "i/n".
func partOf(all []defect, part string) (some []defect, err error) {
	var first, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &first, &n); err != nil || first < 1 || first > n {
		return nil, fmt.Errorf("-part is %q, must be i/n with 1 <= i <= n", part)
	}
	for i := first - 1; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some, nil
}

// verdicts judges all defects and returns the verdicts in the order in which they are known.
func verdicts(ctx context.Context, copies []tree.Tree, all []defect, thorough bool) <-chan verdict {
	todo, done := make(chan defect), make(chan verdict)
	go func() {
		defer close(todo)
		for _, d := range all {
			select {
			case todo <- d:
			case <-ctx.Done():
				return
			}
		}
	}()
	var group sync.WaitGroup
	for _, c := range copies {
		group.Go(func() {
			for d := range todo {
				start := time.Now()
				v := judge(ctx, c, d, thorough)
				v.defect, v.seconds = d, seconds(start)
				done <- v
			}
		})
	}
	go func() {
		group.Wait()
		close(done)
	}()
	return done
}

func seconds(since time.Time) int { return int(time.Since(since).Round(time.Second).Seconds()) }
