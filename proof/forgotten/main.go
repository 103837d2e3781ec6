// Command forgotten checks that a forgotten check is reported. It takes out each call of
// CheckAndComplete and Signal and their kin in the example programs, one at a time, and runs the
// example's own tests with the judge of package purgatorytest in every purgatory. It fails unless
// each is reported, with its key, and none is reported if all calls are there.
//
//	go run ./proof/forgotten                all examples, half an hour
//	go run ./proof/forgotten -only jobs     calls whose file, line or text matches
//
// Run it in the root of the library's module.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "forgotten:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	only := flag.String("only", "", "regular expression: take out only calls whose printed form matches")
	patience := flag.Duration("patience", 90*time.Second, "how long the tests of one package may take without a call; five times as long if none reports it")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	r, done, err := newRunner(".", *patience)
	if err != nil {
		return err
	}
	defer done()
	all, err := calls(r.root, "examples")
	if err != nil {
		return err
	}
	controlled := map[string]bool{}
	taken, missed := 0, 0
	for _, c := range all {
		if !wanted.MatchString(c.String()) {
			continue
		}
		taken++
		began := time.Now()
		found, err := r.takeOut(ctx, c, controlled)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		switch {
		case found.folder == "":
			found.check = "no test of its example runs it"
		case found.check == "":
			missed++
			found.check = "NOT REPORTED"
		}
		fmt.Printf("%s\n\t%s (%s, %.0f s)\n", c, found.check, found.folder, time.Since(began).Seconds())
	}
	fmt.Printf("forgotten: %d calls were taken out, %d were not reported\n", taken, missed)
	if taken == 0 {
		return errors.New("no calls; start it in the root of the library's module")
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d were not reported", missed, taken)
	}
	return nil
}

// newRunner returns a runner for the repository at root. The caller must call done.
func newRunner(root string, patience time.Duration, flags ...string) (r *runner, done func(), err error) {
	r = &runner{patience: patience, flags: flags}
	if r.root, err = filepath.Abs(root); err != nil {
		return nil, nil, err
	}
	if r.library, err = library(r.root); err != nil {
		return nil, nil, err
	}
	if r.dir, err = os.MkdirTemp("", "forgotten"); err != nil {
		return nil, nil, err
	}
	return r, func() { _ = os.RemoveAll(r.dir) }, nil
}

// takeOut takes out c, and runs the tests of one package after the other until it is reported. Some
// wait for minutes in tests, so there is a second round with more patience. Before a package's first
// run it runs its tests with c: they must be green, and must report nothing.
func (r *runner) takeOut(ctx context.Context, c call, controlled map[string]bool) (s seen, err error) {
	folders, err := r.folders(ctx, path.Dir(c.file))
	if err != nil {
		return s, err
	}
	for _, patience := range []time.Duration{r.patience, 5 * r.patience} {
		for _, folder := range folders {
			if !controlled[folder] {
				controlled[folder] = true
				if err := r.control(ctx, folder); err != nil {
					return s, err
				}
			}
			if s, err = r.test(ctx, folder, patience, c); err != nil || s.check != "" {
				return s, err
			}
		}
	}
	return s, nil
}

// control runs the tests of a package with all calls.
func (r *runner) control(ctx context.Context, folder string) error {
	switch s, err := r.test(ctx, folder, 10*r.patience); {
	case err != nil:
		return err
	case s.check != "":
		return fmt.Errorf("a false alarm of the tests of %s: %s", folder, s.check)
	case s.failed != "":
		return fmt.Errorf("tests of %s fail in any case: %s", folder, s.failed)
	}
	return nil
}
