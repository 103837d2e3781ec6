package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
)

// config is what the flags say, checked and complete.
type config struct {
	partitions           int
	replicas             int
	minInsync            int
	producers            int
	rate                 int
	partitionsPerProduce int
	timeout              time.Duration
	lagTime              time.Duration
	fetchWait            time.Duration
	slow                 slowness
	leaderChangeAt       time.Duration
	duration             time.Duration
	debugAddr            string
}

// parseFlags reads the command line. It returns flag.ErrHelp for -h, after the usage has been written to out.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("acksall", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&c.partitions, "partitions", 6, "`number` of partitions; their leaders are spread over the brokers")
	f.IntVar(&c.replicas, "replicas", 3, "`number` of brokers, each of which holds a replica of every partition")
	f.IntVar(&c.minInsync, "min-insync-replicas", 0, "`number` of in-sync replicas without which a produce is refused (0: a majority)")
	f.IntVar(&c.producers, "producers", 4, "`number` of producers, each with a TCP connection to every broker")
	f.IntVar(&c.rate, "rate", 2000, "`number` of produces per second, by all producers together")
	f.IntVar(&c.partitionsPerProduce, "partitions-per-produce", 0, "`number` of partitions that one produce touches (0: 2, or 1 where brokers lead only 1)")
	f.DurationVar(&c.timeout, "timeout", 500*time.Millisecond, "`duration` after which a produce that is not replicated is answered all the same")
	f.DurationVar(&c.lagTime, "lag-time", 1500*time.Millisecond, "`duration` without catching up after which a follower leaves the in-sync set")
	f.DurationVar(&c.fetchWait, "fetch-wait", 0, "`duration` that a follower's fetch waits for records (0: 200ms, or half the lag time if that is less)")
	f.IntVar(&c.slow.broker, "slow-follower", -1, "`broker` whose fetches are slow for a while, counted from 0 (-1: the last one)")
	f.DurationVar(&c.slow.from, "slow-from", 3*time.Second, "`duration` after the start at which the slow follower becomes slow")
	f.DurationVar(&c.slow.to, "slow-to", 6*time.Second, "`duration` after the start at which it is well again (the same as -slow-from: never slow)")
	f.DurationVar(&c.slow.by, "slow-by", 2*time.Second, "`duration` that each of its fetches is held back meanwhile")
	f.DurationVar(&c.leaderChangeAt, "leader-change-at", 4*time.Second, "`duration` after the start at which broker 0 steps down from all it leads (0: never)")
	f.DurationVar(&c.duration, "duration", 10*time.Second, "`duration` for which the producers produce (0: until an interrupt)")
	debugserver.Flag(f, &c.debugAddr)
	if err := f.Parse(args); err != nil {
		return config{}, err
	}
	if f.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: there are only flags (-h lists them)", f.Arg(0))
	}
	c.fillDefaults()
	return c, c.validate()
}

// fillDefaults computes the values whose default depends on other flags.
func (c *config) fillDefaults() {
	if c.minInsync == 0 {
		c.minInsync = c.replicas/2 + 1
	}
	if c.partitionsPerProduce == 0 {
		c.partitionsPerProduce = min(2, c.maxPartitionsPerProduce())
	}
	if c.fetchWait == 0 {
		c.fetchWait = min(200*time.Millisecond, c.lagTime/2)
	}
	if c.slow.broker == -1 {
		c.slow.broker = c.replicas - 1
	}
}

// maxPartitionsPerProduce is how many partitions every broker leads that leads any: a produce goes to one leader.
func (c *config) maxPartitionsPerProduce() int {
	return max(1, c.partitions/max(1, c.replicas))
}

// validate refuses what cannot work, naming the flag, its value and what is allowed; it reports every bad flag at once.
func (c *config) validate() error {
	const hour = time.Hour
	return errors.Join(
		within("partitions", c.partitions, 1, 1000),
		within("replicas", c.replicas, 1, 9),
		within("min-insync-replicas", c.minInsync, 1, max(1, c.replicas)),
		within("producers", c.producers, 1, 1000),
		within("rate", c.rate, 1, 200_000),
		within("partitions-per-produce", c.partitionsPerProduce, 1, c.maxPartitionsPerProduce()),
		within("timeout", c.timeout, time.Millisecond, hour),
		within("lag-time", c.lagTime, 10*time.Millisecond, hour),
		within("fetch-wait", c.fetchWait, time.Millisecond, max(time.Millisecond, c.lagTime/2)),
		within("slow-follower", c.slow.broker, 0, max(0, c.replicas-1)),
		within("slow-from", c.slow.from, 0, hour),
		within("slow-to", c.slow.to, max(0, c.slow.from), hour),
		within("slow-by", c.slow.by, 0, hour),
		within("leader-change-at", c.leaderChangeAt, 0, hour),
		c.validateDuration(),
	)
}

func (c *config) validateDuration() error {
	if c.duration == 0 {
		return nil
	}
	return within("duration", c.duration, 100*time.Millisecond, time.Hour)
}

func within[T int | time.Duration](flag string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("-%s %v: allowed is %v to %v", flag, value, low, high)
}

// slowness says which broker's fetches are held back, by how long, and from when to when after the start.
type slowness struct {
	broker   int
	from, to time.Duration
	by       time.Duration
}

// delay is how long a broker's next fetch is held back; never beyond the moment at which the broker is well again.
func (s slowness) delay(broker int, elapsed time.Duration) time.Duration {
	if broker != s.broker || elapsed < s.from || elapsed >= s.to {
		return 0
	}
	return min(s.by, s.to-elapsed)
}

// happens reports whether there is a slow phase at all.
func (s slowness) happens() bool { return s.by > 0 && s.to > s.from }
