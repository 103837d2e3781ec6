// Command seeded shows that the tests are any good: it puts one defect at a time
// into a copy of the library and has the tests find it. A defect that no test finds
// is a test that is missing.
//
// Each file in defects/ is one: the lesson it stands for, the tests that should go
// red, and the code before and after. Its head says how it is written.
//
//	go run ./proof/seeded            every defect
//	go run ./proof/seeded -only 6682 those whose name matches
//
// It has to be started in the library's module, and ends with status 1 when a defect
// survives, or is no longer one: the code that it replaces is gone, or what replaces
// it does not compile.
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
	only := flag.String("only", "", "regular expression: defects whose name does not match are left out")
	quick := flag.Bool("quick", false, "run only the tests that a defect names, not all others when these stay green")
	jobs := flag.Int("jobs", 2, "how many copies to work on at a time: a defect may make a test wait for a while")
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
	for v := range verdicts(ctx, copies, all, !*quick) {
		tally[v.status]++
		fmt.Printf("%-9s %-48s %s (%d s)\n", v.status, v.name, v.detail, v.seconds)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("seeded: %d defects, %d caught, %d survived, %d broken, %d s\n",
		len(all), tally[caught], tally[survived], tally[broken], seconds(began))
	if tally[caught] != len(all) {
		return fmt.Errorf("%d of %d defects were not caught", len(all)-tally[caught], len(all))
	}
	return nil
}

// verdicts returns what becomes of all, in the order in which that is known.
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
				v.name, v.seconds = d.name, seconds(start)
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
