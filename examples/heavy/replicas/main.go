// Command replicas is a watch service of several processes that lose no wake-up.
//
//	replicas replica -addr 127.0.0.1:8080 -engine nats -url nats://127.0.0.1:4222
//	replicas nats -addr 127.0.0.1:4222 -dir /tmp/nats       a NATS server
//	replicas writer -replicas http://… -keys 1000           puts until it is killed
//	replicas put -engine nats -url nats://…                 puts to the keys that it reads
//	replicas keep -uid 1000 PROGRAM ARGUMENT…               a program that ends with this one's parent
//	replicas demo                                           starts all of them, and breaks them
//	replicas figures                                        how long a wake-up takes across processes
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if os.Getenv(child) != "" {
		go endWithParent()
	}
	name, arguments := "demo", os.Args[1:]
	if len(arguments) > 0 && arguments[0] != "" && arguments[0][0] != '-' {
		name, arguments = arguments[0], arguments[1:]
	}
	commands := map[string]func(context.Context, []string) error{
		"replica": runReplica, "nats": runNATS, "writer": runWriter, "put": runPut, "keep": runKeep,
		"demo":    func(ctx context.Context, arguments []string) error { return runDemo(ctx, os.Stdout, arguments) },
		"figures": func(ctx context.Context, arguments []string) error { return runFigures(ctx, os.Stdout, arguments) },
	}
	run := commands[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "replicas: no command %q; there are replica, nats, writer, put, demo and figures\n", name)
		os.Exit(2)
	}
	var status *exec.ExitError
	switch err := run(ctx, arguments); {
	case errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil && errors.Is(err, context.Canceled): // it was told to end
	case name == "keep" && errors.As(err, &status): // the program has said why
		os.Exit(max(status.ExitCode(), 1))
	case err != nil:
		fmt.Fprintf(os.Stderr, "replicas %s: %v\n", name, err)
		os.Exit(1)
	}
}
