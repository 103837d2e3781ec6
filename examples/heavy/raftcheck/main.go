// Raftcheck runs three members of raftkv as processes, under load and faults, and has Porcupine decide whether what their
// clients have seen could have happened on one machine, one call after the other.
//
//	raftcheck demo     one cluster, with a line a second
//	raftcheck check    many seeds, every history checked for linearizability
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayedop/purgatory/examples/internal/program"
)

var commands = map[string]func(ctx context.Context, args []string, out, errs io.Writer) error{
	"demo":  runDemo,
	"check": runCheck,
}

func main() { program.Main(run) }

// run is the whole program: it returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprintln(errs, "raftcheck: the first argument is one of demo, check")
		return program.Usage
	}
	return program.Status("raftcheck", commands[args[0]](ctx, args[1:], out, errs), errs)
}

// memberFlag defines -member, the members' program: by default it lies beside this one.
func memberFlag(f *flag.FlagSet) *string {
	self, err := os.Executable()
	if err != nil {
		self = "raftcheck"
	}
	return f.String("member", filepath.Join(filepath.Dir(self), "raftkv"), "the members' `program`")
}
