package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/delayedop/purgatory/examples/internal/program"
)

// checkConfig is what the flags of check say.
type checkConfig struct {
	seeds, first uint64
	duration     time.Duration
	clients      int
	parallel     int
	member       string
	drawings     string
	defect       string
	faults       []Fault
}

// runCheck runs many seeds, with a line for each.
func runCheck(ctx context.Context, args []string, out, errs io.Writer) error {
	var c checkConfig
	f := flag.NewFlagSet("raftcheck check", flag.ContinueOnError)
	f.Uint64Var(&c.seeds, "seeds", 50, "how many seeds")
	f.Uint64Var(&c.first, "first", 1, "the first seed")
	f.DurationVar(&c.duration, "duration", 30*time.Second, "of each run")
	f.IntVar(&c.clients, "clients", 12, "that call at the same time")
	f.IntVar(&c.parallel, "parallel", 1, "seeds at a time")
	f.StringVar(&c.drawings, "drawings", filepath.Join(os.TempDir(), "raftkv"), "`folder` for drawings of histories that are not linearizable")
	f.StringVar(&c.defect, "defect", "", "a known `defect` that the members are given: the run succeeds when a seed catches it")
	names := f.String("faults", "", "`faults` to choose from, with commas between them (default: all)")
	member := memberFlag(f)
	err := program.Parse(f, args, errs, func() (err error) {
		if c.seeds < 1 || c.clients < 1 || c.parallel < 1 || c.duration < time.Second {
			return errors.New("seeds, clients and parallel are at least 1, and the duration at least 1 s")
		}
		c.faults, err = chooseFaults(*names)
		return err
	})
	if err != nil {
		return err
	}
	c.member = *member
	start := time.Now()
	failed, err := c.all(ctx, out)
	switch {
	case err != nil:
		return err
	case c.defect == "" && failed > 0:
		return fmt.Errorf("%d of %d seeds failed", failed, c.seeds)
	case c.defect != "" && failed == 0:
		return fmt.Errorf("%s was not caught by %d seeds", c.defect, c.seeds)
	case c.defect != "":
		fmt.Fprintf(out, "%s: caught, in %v\n", c.defect, time.Since(start).Round(time.Second))
	default:
		fmt.Fprintf(out, "%d seeds, every history linearizable, in %v\n", c.seeds, time.Since(start).Round(time.Second))
	}
	return nil
}

var errCaught = errors.New("caught")

// chooseFaults returns the faults that names lists, all of them for "".
func chooseFaults(names string) ([]Fault, error) {
	if names == "" {
		return AllFaults, nil
	}
	var faults []Fault
	for name := range strings.SplitSeq(names, ",") {
		f := Fault(strings.TrimSpace(name))
		if !slices.Contains(AllFaults, f) {
			return nil, fmt.Errorf("fault %q is none of %q", f, AllFaults)
		}
		faults = append(faults, f)
	}
	return faults, nil
}

// all runs the seeds, several at a time, and returns how many failed. With a defect the first that fails is enough.
func (c *checkConfig) all(ctx context.Context, out io.Writer) (failed int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex // guards out, failed and err
	var wg sync.WaitGroup
	slots := make(chan struct{}, c.parallel)
	for seed := c.first; seed < c.first+c.seeds; seed++ {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			report, runErr := c.one(ctx, seed)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(context.Cause(ctx), errCaught):
				return
			case runErr != nil:
				err = errors.Join(err, fmt.Errorf("seed %d: %w", seed, runErr))
				cancel(runErr)
				return
			case c.defect != "" && report.Linearizable == porcupine.Illegal, c.defect == "" && !report.OK():
				failed++
			}
			printReport(out, report)
			if c.defect != "" && report.Linearizable == porcupine.Illegal {
				cancel(errCaught)
			}
		})
	}
	wg.Wait()
	return failed, err
}

func (c *checkConfig) one(ctx context.Context, seed uint64) (*Report, error) {
	folder, err := os.MkdirTemp("", "raftkv-check-")
	if err != nil {
		return nil, err
	}
	return Run(ctx, Config{
		Binary: c.member, Folder: folder, Drawings: c.drawings, Seed: seed, Duration: c.duration, Clients: c.clients,
		Faults: c.faults, Defect: c.defect,
	})
}

func printReport(out io.Writer, r *Report) {
	t := r.Tally
	fmt.Fprintf(out, "seed %d: linearizable %s, %d operations checked; put %d ok, %d not written, %d unknown; get %d ok, %d failed; "+
		"watch %d ok, %d nothing new, %d failed; %v without a write at most; latest answer %v after its deadline; %d waits left; "+
		"%d snapshots taken over; %s\n",
		r.Seed, verdict(r.Linearizable), r.Operations, t.Written.Load(), t.NotWritten.Load(), t.MaybeWritten.Load(), t.Read.Load(),
		t.NotRead.Load(), t.Watched.Load(), t.NothingNew.Load(), t.NotWatched.Load(),
		t.LongestGap().Round(time.Millisecond), t.Latest().Round(time.Millisecond), r.Left, r.Restored, r.Faults)
	if r.Drawing != "" {
		fmt.Fprintf(out, "  drawn in %s\n", r.Drawing)
	}
	if r.Wrong != nil {
		fmt.Fprintf(out, "  WRONG: %v\n", r.Wrong)
	}
}

func verdict(r porcupine.CheckResult) string {
	switch r {
	case porcupine.Ok:
		return "yes"
	case porcupine.Illegal:
		return "NO"
	}
	return "UNDECIDED"
}
