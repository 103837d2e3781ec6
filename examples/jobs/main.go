package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/delayedop/purgatory/examples/internal/httpload"
	"github.com/delayedop/purgatory/examples/internal/program"
)

func main() { program.Main(run) }

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var l load
	f := flag.NewFlagSet("jobs", flag.ContinueOnError)
	listen := f.String("listen", "", "`address` at which to serve until Ctrl-C (empty: a free port of loopback, under a load)")
	lease := f.Duration("lease", 500*time.Millisecond, "`duration` for which a worker may keep a job")
	f.DurationVar(&l.duration, "duration", 5*time.Second, "`duration` of the load")
	f.IntVar(&l.workers, "workers", 60, "`number` of workers of the load")
	f.IntVar(&l.rate, "rate", 400, "`number` of jobs a second that the load puts")
	err := program.Parse(f, args, errs, func() error {
		return errors.Join(
			program.Within("lease", *lease, time.Millisecond, time.Hour),
			program.Within("duration", l.duration, 0, time.Hour),
			program.Within("workers", l.workers, 1, 10_000),
			program.Within("rate", l.rate, 1, 100_000),
		)
	})
	if err == nil {
		err = serve(ctx, *listen, *lease, &l, out)
	}
	return program.Status("jobs", err, errs)
}

// serve serves until ctx ends, or the load has ended.
func serve(ctx context.Context, listen string, lease time.Duration, l *load, out io.Writer) error {
	s, err := newService(lease)
	if err != nil {
		return err
	}
	server, err := httpload.Serve(listen, s.routes())
	if err != nil {
		return errors.Join(err, s.close())
	}
	fmt.Fprintf(out, "%s: a job is leased for %v\n", server.URL, lease)
	if listen == "" {
		err = l.run(ctx, s, server.URL, out)
	} else {
		fmt.Fprintf(out, "  curl -d hello %s/jobs/mail\n  curl -X POST '%s/claims?type=mail&wait=30s'\n", server.URL, server.URL)
		err = server.Until(ctx)
	}
	err = errors.Join(err, s.drain(server.HTTP))
	c := s.counts()
	fmt.Fprintf(out, "put %d, handed out %d, of these given back %d, done %d, left %d\n", c.put, c.handedOut, c.givenBack, c.done, c.left)
	return err
}
