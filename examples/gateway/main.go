package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the whole program. It returns the exit status: 1 if a promise was broken, 2 for a bad flag.
func run(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the first signal drains, a second one ends the process

	var at limits
	var l load
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.SetOutput(errs)
	backend := f.String("backend", "", "`URL` of the server behind the gateway (empty: one of its own, under a load)")
	listen := f.String("listen", "127.0.0.1:0", "`address` at which the gateway listens")
	grace := f.Duration("grace", 30*time.Second, "`duration` that a drain may take")
	f.IntVar(&at.slots, "slots", 8, "`number` of requests that are let through at a time")
	f.IntVar(&at.line, "line", 32, "`number` of requests that wait for a slot; one more is refused")
	f.DurationVar(&at.wait, "wait", 5*time.Second, "`duration` that a request waits at most")
	f.DurationVar(&l.duration, "duration", 5*time.Second, "`duration` of the load")
	f.IntVar(&l.clients, "clients", 80, "`number` of clients of the load, each with one request at a time")
	f.DurationVar(&l.service, "service", 20*time.Millisecond, "`duration` of one request at the load's backend")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil || f.NArg() > 0 || l.clients < 1 || l.duration < 0 {
		fmt.Fprintln(errs, "gateway: want flags only (-h lists them), and positive numbers")
		return 2
	}
	var next http.Handler = &l
	if *backend != "" {
		target, err := url.Parse(*backend)
		if err != nil || target.Host == "" {
			fmt.Fprintf(errs, "gateway: -backend %q is no URL with a host\n", *backend)
			return 2
		}
		next = httputil.NewSingleHostReverseProxy(target)
	}
	g, err := newGateway(next, at)
	if err != nil {
		fmt.Fprintln(errs, "gateway:", err)
		return 2
	}
	if *backend != "" {
		err = g.serve(ctx, *listen, *grace, out, func(string) {})
	} else {
		err = g.serve(ctx, *listen, *grace, out, func(url string) { l.start(ctx, g, url, out, stop) })
		err = errors.Join(err, l.end(g, out))
	}
	if err != nil {
		fmt.Fprintln(errs, "FAIL:", err)
		return 1
	}
	return 0
}

// serve serves until ctx ends, as SIGTERM makes it, and drains. It calls started when it serves.
func (g *gateway) serve(ctx context.Context, listen string, grace time.Duration, out io.Writer, started func(url string)) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return errors.Join(err, g.waiting.Close())
	}
	server := &http.Server{Handler: g, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "%s: %d slots, a line of %d that wait at most %v; SIGTERM drains\n", url, g.limits.slots, g.limits.line, g.limits.wait)
	started(url)
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	fmt.Fprintf(out, "draining: %d wait in line\n", g.waiting.NumDelayed())
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return errors.Join(err, g.drain(late, server))
}
