// Acksall is a replicated log in one process that answers acks=all produces through the purgatory.
//
// Every broker leads some partitions and follows the others: it fetches them from their leaders over TCP. Producers send their
// produces over TCP too. A produce whose records are not yet on every in-sync replica waits in its broker's produce purgatory,
// under every partition that it touched:
//
//	producer ── produce ──► leader: append ──► TryCompleteElseWatchAt(op, timeout, partitions and offsets...)
//	follower ── fetch ────► leader: high watermark moves ──► CheckAndCompleteUpTo(partition, offset) ──► answer: satisfied
//	                        nothing for the timeout ───────► expiration ────────────────────► answer: timed out
//	                        leader steps down ─────────────► CancelForKey(partition) ───────► answer: not leader
//
// The program ends with status 1 when one produce was answered twice, never, or with a timeout before its time, or when a record
// that was acknowledged is not on every in-sync replica.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
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

// run is the whole program: it returns the exit status. It ends early, with all its tables, when ctx does.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parseFlags(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(errs, err)
		return exitUsage
	}
	r, err := produce(ctx, cfg, out)
	if err != nil {
		fmt.Fprintln(errs, "acksall:", err)
		return exitBroken
	}
	return r.status(errs)
}

// result is how a run went: what producers were told, and which promises were broken.
type result struct {
	tally
	broken []string
}

// status is what the process ends with; it writes what is broken.
func (r result) status(errs io.Writer) int {
	for _, what := range r.broken {
		fmt.Fprintln(errs, "BROKEN:", what)
	}
	if len(r.broken) > 0 {
		return exitBroken
	}
	return exitOK
}

// produce runs cluster and producers for the given time or until ctx ends, and writes what happens.
func produce(ctx context.Context, cfg config, out io.Writer) (result, error) {
	page, err := debugserver.Serve(cfg.debugAddr)
	if err != nil {
		return result{}, err
	}
	defer page.Stop()
	page.Announce(out)
	events := newConsole(out)
	events.eventf("%d partitions on %d brokers, %d producers, %d produces/s to %d partitions each, timeout %v",
		cfg.partitions, cfg.replicas, cfg.producers, cfg.rate, cfg.partitionsPerProduce, cfg.timeout)
	c, err := startCluster(cfg, events, page)
	if err != nil {
		return result{}, err
	}
	l := newLedger()
	producers, err := connectProducers(cfg, c, l)
	if err != nil {
		return result{}, errors.Join(err, c.stop(context.Background()))
	}

	producing, stopProducing := lasting(ctx, cfg.duration)
	defer stopProducing()
	var running sync.WaitGroup
	for _, p := range producers {
		running.Go(func() { p.run(producing) })
	}
	followTimeline(producing, cfg, c, l)
	running.Wait()
	events.eventf("the producers have stopped, %d produces wait for their answers", c.waiting())

	// Every produce has its timeout, so all are answered by then; what is added is for a machine that is busy.
	select {
	case <-l.seal():
	case <-time.After(cfg.timeout + 10*time.Second):
	}
	stopping, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = c.stop(stopping)
	for _, p := range producers {
		p.finish()
	}
	report(out, l, c)
	r := result{tally: l.tally(), broken: verify(l, c)}
	if len(r.broken) == 0 {
		fmt.Fprintf(out, "%d produces, each answered exactly once; %d acknowledged records, each on every in-sync replica\n",
			r.sent, l.acknowledgedRecords())
	}
	return r, err
}

// lasting returns a context that ends after a duration, or with ctx; 0: only with ctx.
func lasting(ctx context.Context, duration time.Duration) (context.Context, context.CancelFunc) {
	if duration == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, duration)
}

func connectProducers(cfg config, c *cluster, l *ledger) ([]*producer, error) {
	var all []*producer
	for id := range cfg.producers {
		p := &producer{
			id:         id,
			rate:       float64(cfg.rate) / float64(cfg.producers),
			partitions: cfg.partitionsPerProduce,
			timeout:    cfg.timeout,
			ledger:     l,
			layout:     c.controller.ledPartitions,
		}
		if err := p.connect(c.addresses()); err != nil {
			for _, connected := range all {
				connected.hangUp()
			}
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
