package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit status: 1 if a promise was broken, 2 for a bad flag.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var l load
	f := flag.NewFlagSet("jobs", flag.ContinueOnError)
	f.SetOutput(errs)
	listen := f.String("listen", "", "`address` at which to serve until Ctrl-C (empty: a free port of loopback, under a load)")
	lease := f.Duration("lease", 500*time.Millisecond, "`duration` for which a worker may keep a job")
	f.DurationVar(&l.duration, "duration", 5*time.Second, "`duration` of the load")
	f.IntVar(&l.workers, "workers", 60, "`number` of workers of the load")
	f.IntVar(&l.rate, "rate", 400, "`number` of jobs a second that the load puts")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil || f.NArg() > 0 || *lease <= 0 || l.duration < 0 || l.workers < 1 || l.rate < 1 {
		fmt.Fprintln(errs, "jobs: want flags only (-h lists them), and positive numbers")
		return 2
	}
	if err := serve(ctx, *listen, *lease, &l, out); err != nil {
		fmt.Fprintln(errs, "FAIL:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, listen string, lease time.Duration, l *load, out io.Writer) error {
	s, err := newService(lease)
	if err != nil {
		return err
	}
	address := listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(err, s.close())
	}
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "%s: a job is leased for %v\n", url, lease)
	if listen == "" {
		err = l.run(ctx, s, url, out)
	} else {
		fmt.Fprintf(out, "  curl -d hello %s/jobs/mail\n  curl -X POST '%s/claims?type=mail&wait=30s'\n", url, url)
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	err = errors.Join(err, s.close())
	late, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(late))
	c := s.counts()
	fmt.Fprintf(out, "put %d, handed out %d, of these given back %d, done %d, left %d\n", c.put, c.handedOut, c.givenBack, c.done, c.left)
	return err
}
