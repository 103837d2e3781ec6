// Raftkv is a replicated key-value store on hashicorp/raft, in which every wait is a wait in a purgatory.
//
//	raftkv node     one member
//	raftkv demo     three members as processes, under load and faults, with a line a second
//	raftkv check    the same for many seeds, with every history checked for linearizability
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// What the process ends with.
const (
	exitOK     = 0
	exitBroken = 1 // a promise was broken, or the program could not run
	exitUsage  = 2 // a flag or a subcommand is wrong
)

// errUsage marks an error in what the user typed.
var errUsage = errors.New("usage")

var commands = map[string]func(ctx context.Context, args []string, out, errs io.Writer) error{
	"node":  runNode,
	"demo":  runDemo,
	"check": runCheck,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal shuts down gracefully, a second one ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprintln(errs, "raftkv: the first argument is one of node, demo, check")
		return exitUsage
	}
	err := commands[args[0]](ctx, args[1:], out, errs)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	fmt.Fprintln(errs, "raftkv:", strings.TrimPrefix(err.Error(), "raftkv: ")) // errors of package node begin with it
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitBroken
}

// parse parses the flags of a subcommand, which takes no further arguments.
func parse(f *flag.FlagSet, args []string, errs io.Writer) error {
	f.SetOutput(errs)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	return nil
}
