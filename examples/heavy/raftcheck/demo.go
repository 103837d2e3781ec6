package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/delayedop/purgatory/examples/internal/program"
)

// runDemo runs one cluster where people can watch, with a line a second.
func runDemo(ctx context.Context, args []string, out, errs io.Writer) error {
	f := flag.NewFlagSet("raftcheck demo", flag.ContinueOnError)
	duration := f.Duration("duration", 30*time.Second, "of the run")
	clients := f.Int("clients", 24, "that call at the same time")
	seed := f.Uint64("seed", 1, "of the faults")
	member := memberFlag(f)
	err := program.Parse(f, args, errs, func() error {
		if *duration < time.Second || *clients < 1 {
			return errors.New("the duration is at least 1 s, and there is at least 1 client")
		}
		return nil
	})
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "raftkv-demo-")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "A healthy run: a put or a get in milliseconds, and again within a few seconds of each fault. A call that fails says so,\n"+
		"and breaks nothing; on a busy machine more of them fail. The verdict is the last lines: \"linearizable yes\", and no wait left.")
	p := &printer{out: out}
	report, err := Run(ctx, Config{
		Binary: *member, Folder: folder, Drawings: filepath.Join(os.TempDir(), "raftkv"), Seed: *seed,
		Duration: *duration, Clients: *clients, Faults: AllFaults, Say: p.say, Every: p.every,
	})
	if err != nil && ctx.Err() == nil { // what fails after an interrupt fails because of it
		return err
	}
	if report == nil {
		fmt.Fprintln(out, "interrupted: nothing was checked")
		return nil
	}
	printReport(out, report)
	if !report.OK() {
		return errors.New("a promise was broken")
	}
	return nil
}

// printer prints a line a second, and what happens in between.
type printer struct {
	out io.Writer

	mu   sync.Mutex
	last int64
}

func (p *printer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "        "+format+"\n", args...)
}

func (p *printer) every(now Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := now.Tally
	fmt.Fprintf(p.out, "%4.0f s  leader %-3s %6d calls/s  put %d, %d not written, %d unknown; get %d, %d failed; watch %d\n",
		now.Elapsed.Seconds(), now.Leader, now.Calls-p.last, t.Written.Load(), t.NotWritten.Load(), t.MaybeWritten.Load(),
		t.Read.Load(), t.NotRead.Load(), t.Watched.Load())
	p.last = now.Calls
}
