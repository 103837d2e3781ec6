package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/purgatory"
)

func main() { program.Main(run) }

// run is the whole program. It ends with status 1 when one produce was answered twice, never, or with a timeout before its time,
// when none was answered, or when a record that was acknowledged is not on every in-sync replica.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parseFlags(args, errs)
	if err == nil {
		_, err = produce(ctx, cfg, out)
	}
	return program.Status("acksall", err, errs)
}

// config is what the flags say, checked.
type config struct {
	partitions, replicas, rate                                   int
	timeout, lagTime, slowFrom, slowTo, leaderChangeAt, duration time.Duration
	debugAddr                                                    string
}

func parseFlags(args []string, errs io.Writer) (c config, err error) {
	f := flag.NewFlagSet("acksall", flag.ContinueOnError)
	f.IntVar(&c.partitions, "partitions", 6, "`number` of partitions; their leaders are spread over the brokers")
	f.IntVar(&c.replicas, "replicas", 3, "`number` of brokers, each of which holds a replica of every partition")
	f.IntVar(&c.rate, "rate", 2000, "`number` of produces per second, by all producers together")
	f.DurationVar(&c.timeout, "timeout", 500*time.Millisecond, "`duration` after which a produce that is not replicated is answered all the same")
	f.DurationVar(&c.lagTime, "lag-time", 1500*time.Millisecond, "`duration` without a fetch after which a follower leaves the in-sync set")
	f.DurationVar(&c.slowFrom, "slow-from", 3*time.Second, "`duration` after the start at which the last broker stops fetching")
	f.DurationVar(&c.slowTo, "slow-to", 6*time.Second, "`duration` after the start at which it fetches again (the same as -slow-from: it never stops)")
	f.DurationVar(&c.leaderChangeAt, "leader-change-at", 4*time.Second, "`duration` after the start at which broker 0 steps down from all it leads (0: never)")
	f.DurationVar(&c.duration, "duration", 10*time.Second, "`duration` for which the producers produce (0: until an interrupt)")
	debugserver.Flag(f, &c.debugAddr)
	err = program.Parse(f, args, errs, func() error {
		return errors.Join(
			program.Within("partitions", c.partitions, 1, 100),
			program.Within("replicas", c.replicas, 1, 9),
			program.Within("rate", c.rate, 1, 200_000),
			program.Within("timeout", c.timeout, time.Millisecond, time.Hour),
			program.Within("lag-time", c.lagTime, 10*time.Millisecond, time.Hour),
			program.Within("slow-from", c.slowFrom, 0, time.Hour),
			program.Within("slow-to", c.slowTo, max(0, c.slowFrom), time.Hour),
			program.Within("leader-change-at", c.leaderChangeAt, 0, time.Hour),
			program.Within("duration", c.duration, 0, time.Hour),
		)
	})
	return c, err
}

// announce says what a healthy run looks like, so that a reader can tell it from one that a busy machine has slowed down.
func announce(out io.Writer, c config) {
	fmt.Fprintf(out, "%d partitions on %d brokers, %d producers, %d produces/s, timeout %v\n",
		c.partitions, c.replicas, producers, c.rate, c.timeout)
	fmt.Fprintln(out, "A healthy run: \"satisfied\" keeps up with \"produced\", and few wait.")
	if c.slow() {
		fmt.Fprintf(out, "From %v to %v broker %d does not fetch: produces time out, until it leaves the in-sync set after %v.\n",
			c.slowFrom, c.slowTo, c.replicas-1, c.lagTime)
	}
	if c.leaderChangeAt > 0 {
		fmt.Fprintf(out, "At %v broker 0 steps down: what waits there is cancelled, once.\n", c.leaderChangeAt)
	}
	fmt.Fprint(out, "On a busy machine more times out, and healthy followers may lag. The verdict is the last line.\n\n")
}

func (c config) slow() bool { return c.slowTo > c.slowFrom && c.replicas > 1 }

// produce runs cluster and producers for the given time or until ctx ends, and writes what happens.
func produce(ctx context.Context, cfg config, out io.Writer) (tally, error) {
	page, err := debugserver.Serve(cfg.debugAddr)
	if err != nil {
		return tally{}, err
	}
	defer page.Stop()
	page.Announce(out)
	announce(out, cfg)
	console, l := program.NewConsole(out), newLedger()
	c, err := startCluster(cfg, l, console.Printf, page)
	if err != nil {
		return tally{}, err
	}
	all, err := connectProducers(cfg, c, l)
	if err != nil {
		return tally{}, errors.Join(err, c.stop(context.Background()))
	}

	producing, stopProducing := context.WithCancel(ctx)
	defer stopProducing()
	if cfg.duration > 0 {
		defer time.AfterFunc(cfg.duration, stopProducing).Stop()
	}
	var running errgroup.Group
	for _, p := range all {
		running.Go(func() error { return p.run(producing) })
	}
	c.makeTrouble(producing, cfg, func() { console.Printf("%v", l.tally()) })
	err = running.Wait()
	console.Printf("  * the producers have stopped, %d produces wait for their answers", l.tally().open)

	// Every produce has its timeout, so all are answered by then; what is added is for a machine that is busy.
	for end := time.Now().Add(cfg.timeout + 10*time.Second); l.tally().open > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	stopping, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = errors.Join(err, c.stop(stopping))
	for _, p := range all {
		err = errors.Join(err, p.readers.Wait()) // until the brokers have hung up, and every answer of theirs is in the ledger
	}
	l.report(out)
	for _, b := range c.brokers {
		for name, s := range map[string]purgatory.Stats{b.produces.Name(): b.produces.Stats(), b.fetches.Name(): b.fetches.Stats()} {
			fmt.Fprintf(out, "%s: %d pending; %d accepted: %d satisfied, %d expired, %d cancelled, %d closed\n",
				name, s.Pending, s.Accepted, s.Satisfied, s.Expired, s.Cancelled, s.Closed)
		}
	}
	broken := l.verify(c)
	if len(broken) == 0 {
		fmt.Fprintf(out, "\n%d produces, each answered exactly once; %d acknowledged records, each on every in-sync replica\n",
			l.tally().sent, len(l.mu.acknowledged))
	}
	return l.tally(), errors.Join(err, program.Verdict(broken))
}
