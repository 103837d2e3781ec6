// Package program is what the example programs have in common: flags that say what is allowed, an interrupt that ends the
// program with its tables, and an exit status that is the verdict.
//
//	func main() { program.Main(run) }
//
//	func run(ctx context.Context, args []string, out, errs io.Writer) int {
//		return program.Status("sessions", keep(ctx, args, out, errs), errs)
//	}
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// What a process ends with.
const (
	OK     = 0
	Failed = 1 // a promise was broken, or the program could not run
	Usage  = 2 // a flag is wrong
)

// Main runs the program of this process. The first interrupt ends its context, a second one the process.
func Main(run func(ctx context.Context, args []string, out, errs io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// ErrUsage marks what the user typed wrongly.
var ErrUsage = errors.New("usage")

// BrokenError is a verdict: the promises that a run has broken, one a line.
type BrokenError []string

func (b BrokenError) Error() string { return "BROKEN: " + strings.Join(b, "\nBROKEN: ") }

// Verdict is nil if nothing was broken.
func Verdict(broken []string) error {
	if len(broken) == 0 {
		return nil
	}
	return BrokenError(broken)
}

// Status returns what the process ends with after err, and writes what is wrong.
func Status(name string, err error, errs io.Writer) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return OK
	case errors.Is(err, ErrUsage):
		fmt.Fprintln(errs, err)
		return Usage
	}
	fmt.Fprintf(errs, "%s: %v\n", name, err)
	return Failed
}

// Parse parses flags and then checks them. It writes the usage to errs, for -h too, which ends with [flag.ErrHelp].
func Parse(f *flag.FlagSet, args []string, errs io.Writer, check func() error) error {
	f.SetOutput(errs)
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: there are only flags (-h lists them)", f.Arg(0))
	default:
		err = check()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return nil
}

// Within returns an error unless low <= value <= high. It names the flag, its value and what is allowed.
func Within[T int | time.Duration](flag string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("-%s %v: allowed is %v to %v", flag, value, low, high)
}

// ErrorLog logs errors to standard error, and nothing below them. It is for programs that put a machine under load: a busy
// machine is slow, and warnings about that would hide what such a program shows.
func ErrorLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
