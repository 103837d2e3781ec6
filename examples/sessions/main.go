// Sessions keeps sessions alive by their heartbeats, by the hundred thousand, and finds those that fall silent.
//
// A session is an operation that waits for its goodbye. A heartbeat moves its deadline, and costs a clock reading and an atomic
// operation; the wheel learns of it when the old deadline passes:
//
//	opened ──────► TryCompleteElseWatch(session, timeout, id)
//	heartbeat ───► Extend(session, timeout) ── true: it was in time
//	                                         └ false: too late, it was found, or is being found
//	goodbye ─────► CheckAndComplete(id) ─────► OnComplete: satisfied
//	silence ─────► its timeout passes ───────► OnComplete, OnExpiration: found
//
// Some fall silent and have to be found, each exactly once. Some speak just at their deadline, so that each heartbeat races the
// expiry: what Extend answered must be what happened. The program ends with status 1 if a silent one was not found, or was found
// twice, or if one that spoke in time was refused or found.
//
// # When to use what
//
// Extend is for deadlines that move a million times and pass once: members of a group, leases, idle connections. Where there
// is nothing to complete, and no key under which to find it, the timer alone will do: timer's AfterFunc, and Handle.Extend for the
// heartbeat. Where a deadline passes more often than it moves, an operation per wait is simpler.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// What the process ends with.
const (
	exitOK     = 0
	exitBroken = 1 // a promise was broken, or the program could not run
	exitUsage  = 2 // a flag is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the run with its tables, a second one the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit status. It ends early, with its tables, when ctx does.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parseFlags(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(errs, err)
		return exitUsage
	}
	broken, err := keepSessions(ctx, cfg, out)
	if err != nil {
		fmt.Fprintln(errs, "sessions:", err)
		return exitBroken
	}
	for _, what := range broken {
		fmt.Fprintln(errs, "BROKEN:", what)
	}
	if len(broken) > 0 {
		return exitBroken
	}
	return exitOK
}
