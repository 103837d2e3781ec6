// Longpoll is an HTTP server whose GETs wait for news in a purgatory.
//
//	POST /topics/{topic}                                            publishes the body as a message
//	GET  /topics/{topic}?after=<offset>&timeout=<duration>&min=<n>  answers with the messages after an offset, or waits for them
//
// A GET that finds enough is answered at once. Otherwise it blocks in AwaitAt, under its topic, at the position that it waits
// for: no goroutine beside the request's own, no timer of the runtime. A POST says how far its topic has come:
//
//	GET ── too few messages ──► AwaitAt(ctx, timeout, ready, {topic, offset})
//	                              │ POST: append, SignalUpTo(topic, offset) ──► 200, the messages
//	                              │ timeout ──────────────────────────────────► 200, what there is
//	                              │ client disconnects: its context ends ─────► nobody to answer
//	                              └ shutdown: Close ──────────────────────────► 503, come back
//
// # When to use what
//
// Await and AwaitAt suit a server with a goroutine per request, as net/http's are: the handler reads from top to bottom. Where
// answers are written by somebody else, or a hundred thousand goroutines are too many, write an operation, as examples/acksall
// does. AwaitAt, and not Await, because readers wait for a position in a log: a message wakes those who wait for it, and is not
// tried on those who want ten more. SignalUpTo, and not CheckAndCompleteUpTo, because a publisher should not pay for its readers,
// and because the signals of a burst coalesce into one check.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/delayedop/purgatory/examples/internal/program"
)

func main() { program.Main(run) }

// run is the whole program: it returns the exit status. The first interrupt shuts the server down gracefully.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parseFlags(args, errs)
	if err == nil {
		level, do := slog.LevelWarn, serve
		if cfg.demo.on {
			level, do = slog.LevelError, demonstrate // a busy machine is slow: no warnings about that
		}
		err = do(ctx, cfg, out, slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: level})))
	}
	return program.Status("longpoll", err, errs)
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, cfg config, out io.Writer, log *slog.Logger) error {
	s, err := startServer(cfg, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on %s, at most %d MiB of messages; Ctrl-C shuts down\n", s.url(), cfg.limits.memory()>>20)
	s.debug.Announce(out)
	select {
	case <-ctx.Done():
	case <-s.failed:
	}
	fmt.Fprintf(out, "shutting down: %d waiting requests are answered\n", s.waiting.NumDelayed())
	return s.shutdown()
}
