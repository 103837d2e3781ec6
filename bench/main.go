// Command bench measures the library beside its peers: other timers, and the purgatories that people write by hand.
//
// It prints a table for each workload, and writes the tables and the samples that they are made of.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/workload"
)

type options struct {
	quick      bool
	only       regexp.Regexp
	rounds     uint
	window     time.Duration
	results    string
	repository string
	report     string
	turn       uint
	custom     bool // asked for something that makes it another run than the others of its scope
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func flags(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", false, "the essentials within a minute: fewer peers, parameters and rounds")
	f.TextVar(&o.only, "only", regexp.MustCompile(""), "measure only the families of workloads that hold a workload matching this `regexp`, such as '^T1$'")
	f.UintVar(&o.rounds, "rounds", 0, "how often each peer is measured, interleaved (default: from 4 where it is soon done to 2 where it takes seconds; with -quick 2 and 1)")
	f.DurationVar(&o.window, "window", 0, "how long a loop is measured each time (default 100ms, with -quick 60ms)")
	f.StringVar(&o.results, "results", "results", "`folder` for samples and tables, each kind of run in a folder of its own there (none when empty)")
	f.StringVar(&o.repository, "repository", "..", "`folder` of the repository, whose README.md and docs/benchmarks.md a full run writes its figures into (none when empty, or when there are no results)")
	f.StringVar(&o.report, "report", "", "measure nothing: publish the samples in this JSON `file` again")
	f.UintVar(&o.turn, "turn", 0, "measure only this turn of a family, and print the raw results: what the program starts itself for each")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see -h", f.Arg(0))
	}
	o.custom = o.only.String() != "" || o.rounds != 0 || o.window != 0
	usual := 100 * time.Millisecond
	if o.quick {
		usual, o.rounds = 60*time.Millisecond, cmp.Or(o.rounds, 2)
	}
	o.window = cmp.Or(o.window, usual)
	return o, nil
}

func run(args []string) error {
	o, err := flags(args)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if o.report != "" {
		samples, err := os.ReadFile(o.report)
		if err != nil {
			return err
		}
		set, err := result.ParseJSON(samples)
		if err != nil {
			return err
		}
		return publish(set, o)
	}
	set, err := measure(o)
	if err != nil {
		return err
	}
	if o.turn > 0 {
		return set.WriteJSON(os.Stdout)
	}
	return publish(set, o)
}

func measure(o options) (*result.Set, error) {
	set := &result.Set{About: about(o)}
	r := &workload.Run{
		Rounds: int(o.rounds), Window: o.window, Quick: o.quick, Million: workload.Million, Heap: workload.Heap, Set: set, Progress: os.Stderr,
		Only: int(o.turn),
	}
	start := time.Now()
	for _, f := range workload.Families() {
		if !f.Matches(&o.only) {
			continue
		}
		if o.turn == 0 {
			r.Apart = func(n int) (*result.Set, error) { return apart(o, f, n) }
		}
		if err := r.Measure(f); err != nil {
			return nil, err
		}
	}
	set.About["took"] = time.Since(start).Round(time.Second).String()
	return set, nil
}

// turnArgs are the arguments that have this program take a turn of a run with these options. All that decides which turns
// there are has to be the same: the number would name another one.
func turnArgs(o options, f workload.Family, n int) []string {
	return []string{
		"-only", "^" + regexp.QuoteMeta(f.Name) + "$", "-turn", strconv.Itoa(n),
		"-rounds", fmt.Sprint(o.rounds), "-window", o.window.String(),
		"-quick=" + strconv.FormatBool(o.quick),
	}
}

// apart has this program take the n-th turn of f once more, as a process of its own.
func apart(o options, f workload.Family, n int) (*result.Set, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(program, turnArgs(o, f, n)...)
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		return nil, err
	}
	return result.ParseJSON(out)
}
