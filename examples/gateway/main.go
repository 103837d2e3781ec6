package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"github.com/delayedop/purgatory/examples/internal/httpload"
	"github.com/delayedop/purgatory/examples/internal/program"
)

func main() { program.Main(run) }

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // the load's own SIGTERM, also in a test
	defer stop()
	var at limits
	var l load
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:0", "`address` at which the gateway listens")
	backend := f.String("backend", "", "`URL` of the server behind the gateway (empty: one of its own, under a load)")
	grace := f.Duration("grace", 30*time.Second, "`duration` that a drain may take")
	f.IntVar(&at.slots, "slots", 8, "`number` of requests that are let through at a time")
	f.IntVar(&at.line, "line", 32, "`number` of requests that wait for a slot; one more is refused")
	f.DurationVar(&at.wait, "wait", 5*time.Second, "`duration` that a request waits at most")
	f.DurationVar(&l.duration, "duration", 5*time.Second, "`duration` of the load")
	f.IntVar(&l.clients, "clients", 80, "`number` of clients that flood the gateway, each with one request at a time")
	f.DurationVar(&l.service, "service", 20*time.Millisecond, "`duration` of one request at the load's backend")
	var next http.Handler = &l
	err := program.Parse(f, args, errs, func() error {
		target, err := url.Parse(*backend)
		if err == nil && *backend != "" && target.Host == "" {
			err = fmt.Errorf("-backend %q: must have a host, as http://127.0.0.1:8080 has", *backend)
		}
		if *backend != "" && err == nil {
			next = httputil.NewSingleHostReverseProxy(target)
		}
		return errors.Join(
			err,
			program.Within("grace", *grace, 0, time.Hour),
			program.Within("slots", at.slots, 1, 1_000_000),
			program.Within("line", at.line, 1, 1_000_000),
			program.Within("wait", at.wait, time.Millisecond, time.Hour),
			program.Within("duration", l.duration, 0, time.Hour),
			program.Within("clients", l.clients, 1, 10_000),
			program.Within("service", l.service, 0, time.Minute),
		)
	})
	if err != nil {
		return program.Status("gateway", err, errs)
	}
	l.Load = httpload.New(l.clients + 1)
	g, err := newGateway(next, at)
	if err != nil {
		return program.Status("gateway", err, errs)
	}
	judge := func() error { return nil }
	err = g.serve(ctx, *listen, *grace, out, func(url string) {
		if *backend == "" {
			l.start(ctx, g, url, out, stop)
			judge = func() error { return l.end(g, out) }
		}
	})
	return program.Status("gateway", errors.Join(err, judge()), errs)
}

// serve serves until ctx ends, as SIGTERM makes it, and drains. It calls started when it serves.
func (g *gateway) serve(ctx context.Context, listen string, grace time.Duration, out io.Writer, started func(url string)) error {
	server, err := httpload.Serve(listen, g)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d slots, a line of %d that wait at most %v; SIGTERM drains\n", server.URL, g.limits.slots, g.limits.line, g.limits.wait)
	started(server.URL)
	err = server.Until(ctx)
	fmt.Fprintf(out, "draining: %d wait in line\n", g.slots.Stats().Waiting)
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return errors.Join(err, g.drain(late, server.HTTP))
}
